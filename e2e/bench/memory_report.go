package main

import (
	"fmt"
	"io"
)

// memoryGoal is how many bytes of live heap a watched object may take.
const memoryGoal = 512

// memoryReport is the result of memory.
type memoryReport struct {
	Environment environment `json:"environment"`
	Objects     int         `json:"objects"`
	PerResource int         `json:"objectsPerResource"`
	Goal        int64       `json:"goalBytesPerObject"`
	Ways        []wayReport `json:"ways"`
}

// wayReport is the result for one way to watch.
type wayReport struct {
	Way string `json:"way"`
	watchFigures
}

// verdict is an error if Vidra took what changed nothing that is its own for
// work: the figures are then of something else.
func (r *memoryReport) verdict() error {
	for _, w := range r.Ways {
		if w.Work > 0 {
			return fmt.Errorf("%s found work for %d owners where nothing of theirs was changed", w.Way, w.Work)
		}
	}
	return nil
}

// json prints the report for programs.
func (r *memoryReport) json(out io.Writer) error { return printJSON(out, r) }

// table prints the report as a table.
func (r *memoryReport) table(out io.Writer) error {
	_, _ = fmt.Fprintf(out, "%-18s %13s %12s %10s %7s %13s\n",
		"WAY TO WATCH", "LIVE HEAP", "ALL EDITED", "PEAK", "SYNC", "CPU AN EVENT")
	verdict := ""
	for _, w := range r.Ways {
		_, _ = fmt.Fprintf(out, "%-18s %6d B/obj. %5d B/obj. %6.1f MiB %5.2f s %10.1f us\n", w.Way,
			w.Bytes, w.BytesEdited, float64(w.Peak)/(1<<20), w.Sync, w.CPU)
		if w.Way == vidraWay {
			reached := "reached"
			if max(w.Bytes, w.BytesEdited) > r.Goal {
				reached = "missed"
			}
			verdict = fmt.Sprintf("Vidra's live heap holds its Index too: goal %d B %s.", r.Goal, reached)
		}
	}
	_, err := fmt.Fprintf(out, "\n%d ConfigMaps, %d for each VidraResource, Kubernetes %s, %d CPUs.\n%s\n",
		r.Objects, r.PerResource, r.Environment.Kubernetes, r.Environment.CPUs, verdict)
	return err
}
