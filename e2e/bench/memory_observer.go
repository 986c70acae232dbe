package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime/debug"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// observerCommand is the sub-command that this process starts itself with.
const observerCommand = "observer"

// watchFigures are what an observer measured.
type watchFigures struct {
	// Bytes of live heap for each object, when all were seen, and when each was
	// edited once.
	Bytes       int64 `json:"bytesPerObject"`
	BytesEdited int64 `json:"bytesPerObjectAfterEdits"`
	// Peak is the largest heap while the objects were listed, with garbage.
	Peak uint64 `json:"peakBytes"`
	// Sync is how many seconds it took to see all objects.
	Sync float64 `json:"syncSeconds"`
	// CPU is how many microseconds of CPU time an edit of an object took.
	CPU float64 `json:"cpuMicrosecondsPerEvent"`
	// Work is how many owners were put into the work queue, although nothing that
	// is theirs was changed.
	Work int `json:"work"`
}

// runObserver is the process that is measured. It watches objects in one way,
// which takes memory; then it prints childReady, and when each of n objects was
// edited once, its figures. It ends with its standard input.
func runObserver(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	fs := childFlags(observerCommand)
	name := fs.String("way", "", "In which way to watch.")
	n := fs.Int("objects", 0, "How many objects there are.")
	config, err := childConfig(fs, args)
	if err != nil {
		return err
	}
	ctx, cancel := untilParentEnds(ctx, in)
	defer cancel()
	figures, err := measureWatch(ctx, config, *name, int64(*n), out)
	if ctx.Err() != nil {
		return nil // the parent needs no figures
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(figures)
}

// measureWatch watches n objects in one way until each was edited once.
func measureWatch(ctx context.Context, config *rest.Config, name string, n int64, out io.Writer) (f watchFigures, err error) {
	w, err := wayOf(name)
	if err != nil {
		return f, err
	}
	if err := warmUp(ctx, config); err != nil {
		return f, err
	}
	events := &counter{target: n, reached: make(chan struct{}, 1)}
	before := liveHeap()
	watching, err := w.prepare(ctx, config, events)
	if err != nil {
		return f, err
	}
	debug.FreeOSMemory() // what the preparation left is no part of the peak
	peak := startPeak()
	began := time.Now()
	if err := watching.sync(ctx); err != nil {
		return f, err
	}
	f.Sync = time.Since(began).Seconds()
	f.Peak = peak.stop()
	if seen := events.seen.Load(); seen != n {
		return f, fmt.Errorf("there are %d objects, not %d", seen, n)
	}
	f.Bytes = (liveHeap() - before) / n

	<-events.reached
	events.seen.Store(0)
	cpu := cpuTime()
	if _, err := fmt.Fprintln(out, childReady); err != nil {
		return f, err
	}
	select {
	case <-ctx.Done():
		return f, fmt.Errorf("after %d events: %w", events.seen.Load(), ctx.Err())
	case <-events.reached:
	}
	f.CPU = float64((cpuTime() - cpu).Microseconds()) / float64(n)
	f.BytesEdited = (liveHeap() - before) / n
	f.Work = watching.work()
	return f, nil
}

// warmUp opens the connection, which is the same for every way to watch.
func warmUp(ctx context.Context, config *rest.Config) error {
	client, err := dynamic.NewForConfig(config)
	if err == nil {
		_, err = client.Resource(configMap.gvr).List(ctx, metav1.ListOptions{Limit: 1})
	}
	return err
}

// counter counts events, and reports when there are as many as it should see.
type counter struct {
	seen    atomic.Int64
	target  int64
	reached chan struct{}
}

func (c *counter) count() {
	if c.seen.Add(1) == c.target {
		c.reached <- struct{}{}
	}
}

// observer is the process that runs runObserver.
type observer struct{ *child }

// startObserver starts an observer, and returns when it counts events.
func startObserver(ctx context.Context, way, kubeconfig string, objects int) (*observer, error) {
	c, err := startReady(ctx, "the observer", observerCommand, "-kubeconfig", kubeconfig, "-way", way, "-objects", fmt.Sprint(objects))
	return &observer{c}, err
}

// figures waits until the observer has its figures.
func (w *observer) figures() (f watchFigures, err error) {
	if err := json.NewDecoder(w.out).Decode(&f); err != nil {
		return f, fmt.Errorf("the observer did not see every edit: %w", err)
	}
	return f, nil
}
