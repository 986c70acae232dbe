package main

import "github.com/prometheus/procfs"

// usage is what a process has taken of the machine. It is zero where there is no /proc.
type usage struct {
	// CPU seconds that it used.
	CPU float64 `json:"cpuSeconds"`
	// Resident is how many bytes of memory it has now, and Peak how many it had at most.
	Resident uint64 `json:"residentBytes"`
	Peak     uint64 `json:"peakResidentBytes"`
}

// readUsage reads the usage of a process from /proc.
func readUsage(pid int) (u usage) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return u
	}
	if stat, err := p.Stat(); err == nil {
		u.CPU = stat.CPUTime()
	}
	if status, err := p.NewStatus(); err == nil {
		u.Resident, u.Peak = status.VmRSS, status.VmHWM
	}
	return u
}

// since is the usage with the CPU time of a part of the process's life only.
func (u usage) since(before usage) usage {
	u.CPU = round2(u.CPU - before.CPU)
	return u
}

// add adds the usage of a later time, or of another process that does the same.
func (u *usage) add(later usage) {
	u.CPU = round2(u.CPU + later.CPU)
	u.Resident, u.Peak = later.Resident, max(u.Peak, later.Peak)
}

// mib is a number of bytes in MiB.
func mib(bytes uint64) float64 { return float64(bytes) / (1 << 20) }
