package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// The processes that are not part of the control plane, as CPU times name them.
const (
	operatorProcess = "operator"
	// benchProcess is this program, which creates the VidraResources and waits for them, and
	// sideProcess its child that is the floor or the peer.
	benchProcess = "bench"
	sideProcess  = "side"
)

// cpuTimes are how many seconds of CPU time processes took, by their names. On a machine with few CPUs, their sum
// bounds how fast a rollout can be, and it depends less than the time on what else the machine does.
type cpuTimes map[string]float64

// readCPU returns what the control plane, the operator and this program have taken so far.
func (l *lab) readCPU() cpuTimes {
	c := cpuTimes{benchProcess: readUsage(os.Getpid()).CPU}
	if l.operator != nil {
		c[operatorProcess] = readUsage(l.operator.PID).CPU
	}
	for name, pid := range l.env.Processes() {
		c[name] = readUsage(pid).CPU
	}
	return c
}

// since is what was taken after before.
func (c cpuTimes) since(before cpuTimes) cpuTimes {
	taken := cpuTimes{}
	for name, seconds := range c {
		taken[name] = round2(seconds - before[name])
	}
	return taken
}

// plus is the sum of two.
func (c cpuTimes) plus(other cpuTimes) cpuTimes {
	sum := cpuTimes{}
	maps.Copy(sum, c)
	for name, seconds := range other {
		sum[name] = round2(sum[name] + seconds)
	}
	return sum
}

// total is the sum of all processes.
func (c cpuTimes) total() float64 {
	total := 0.0
	for _, seconds := range c {
		total += seconds
	}
	return round2(total)
}

// each prints the CPU time of each process for one of n things.
func (c cpuTimes) each(n int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(c)) {
		if c[name] > 0 {
			parts = append(parts, fmt.Sprintf("%s %.3f ms", name, 1000*c[name]/float64(max(n, 1))))
		}
	}
	return strings.Join(parts, ", ")
}
