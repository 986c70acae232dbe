package main

import (
	"fmt"
	"io"
)

// restartReport is the result of restart. Times are in seconds, from the start of the process.
type restartReport struct {
	Environment environment `json:"environment"`
	Resources   int         `json:"resources"`
	PerResource int         `json:"objectsPerResource"`
	Edited      int         `json:"edited"`
	// List is how long one LIST of all objects takes, in pages: the floor.
	List float64 `json:"listSeconds"`
	// Ready is when the operator was ready, and Reverted when all edits were.
	Ready    float64 `json:"readySeconds"`
	Reverted float64 `json:"revertedSeconds"`
	// Before is what the operator took until it was stopped, and After since it was started again.
	Before   usage    `json:"usageBefore"`
	After    usage    `json:"usageAfter"`
	Requests requests `json:"requests"`
}

// verdict is an error if the operator wrote to more objects than were edited.
func (r *restartReport) verdict() error {
	if r.Requests.Patch > r.Edited {
		return fmt.Errorf("the operator sent %d PATCH requests for %d edited objects after the restart", r.Requests.Patch, r.Edited)
	}
	return nil
}

// json prints the report for programs.
func (r *restartReport) json(out io.Writer) error { return printJSON(out, r) }

// table prints the report as a table.
func (r *restartReport) table(out io.Writer) error {
	_, err := fmt.Fprintf(out, "%-28s %7.2f s\n%-28s %7.2f s\n%-28s %7.2f s\n%-28s %7.0f MiB, %.0f MiB at most, %.1f s of CPU time\n"+
		"%-28s %7.0f MiB, %.0f MiB at most, %.1f s of CPU time\n\n"+
		"%d VidraResources with %d ConfigMaps each, %d edited while the operator was stopped, Kubernetes %s, %d CPUs.\n"+
		"The operator sent after the restart: %d PATCH and %d GET of objects, %d status patches, %d for Events, others %v.\n",
		"LIST of all objects (floor)", r.List, "Operator ready", r.Ready, "Edits reverted", r.Reverted,
		"Memory before the restart", mib(r.Before.Resident), mib(r.Before.Peak), r.Before.CPU,
		"Memory after the restart", mib(r.After.Resident), mib(r.After.Peak), r.After.CPU,
		r.Resources, r.PerResource, r.Edited, r.Environment.Kubernetes, r.Environment.CPUs,
		r.Requests.Patch, r.Requests.Get, r.Requests.Status, r.Requests.Events, r.Requests.Other)
	return err
}
