package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/vidra-operator/vidra/pkg/terminal"
)

var eventOutputs = []string{outputWide, outputJSON, outputYAML}

// eventPrinter prints Events. Where more Events follow, each call prints those
// that are new; else there is one call.
type eventPrinter struct {
	out io.Writer
	// output is one of eventOutputs, or nothing for a table.
	output string
	// follow reports that more Events follow.
	follow bool
	// colour is whether out supports ANSI escape codes.
	colour bool
	// now is the present.
	now func() time.Time

	// text is the table so far; nil before its first row.
	text *textTable
}

// isTable reports whether a table is printed; without rows nothing is.
func (p *eventPrinter) isTable() bool { return p.output == "" || p.output == outputWide }

// print prints Events.
func (p *eventPrinter) print(all []*eventsv1.Event) error {
	switch {
	case p.isTable():
		return p.table(all)
	case p.follow:
		return p.documents(all)
	}
	return printDocument(p.out, p.output, listOf(all))
}

// marshal is one of several documents, and a line if it is JSON.
func (p *eventPrinter) marshal(o any) ([]byte, error) {
	document, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	if p.output == outputYAML {
		document, err = safeDocument(document, true)
		return append([]byte("---\n"), document...), err
	}
	return []byte(terminal.EscapeJSON(string(document) + "\n")), nil
}

func (p *eventPrinter) write(text string, err error) error {
	if err == nil {
		_, err = io.WriteString(p.out, text)
	}
	if err != nil {
		return fmt.Errorf("print Events: %w", err)
	}
	return nil
}

// documents prints each Event as a document of its own.
func (p *eventPrinter) documents(all []*eventsv1.Event) error {
	var b bytes.Buffer
	for _, e := range all {
		document, err := p.marshal(typed(e))
		if err != nil {
			return p.write("", err)
		}
		b.Write(document)
	}
	return p.write(b.String(), nil)
}

// typed returns an Event with apiVersion and kind, which the items of a list do not have, and without
// managedFields.
func typed(e *eventsv1.Event) *eventsv1.Event {
	e = e.DeepCopy()
	e.SetGroupVersionKind(eventsv1.SchemeGroupVersion.WithKind("Event"))
	e.ManagedFields = nil
	return e
}

// listOf is a list as kubectl prints it.
func listOf(all []*eventsv1.Event) *metav1.List {
	list := &metav1.List{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "List"}, Items: []runtime.RawExtension{}}
	for _, e := range all {
		list.Items = append(list.Items, runtime.RawExtension{Object: typed(e)})
	}
	return list
}

// columns are those that are printed.
func (p *eventPrinter) columns() []eventColumn {
	var columns []eventColumn
	for _, c := range eventColumns {
		if !c.wide || p.output == outputWide {
			columns = append(columns, c)
		}
	}
	return columns
}

// table prints Events as rows of one table, the first time with a heading.
func (p *eventPrinter) table(all []*eventsv1.Event) error {
	if len(all) == 0 {
		return nil
	}
	columns := p.columns()
	var rows [][]styled
	if p.text == nil {
		p.text = &textTable{colour: p.colour}
		names := make([]string, len(columns))
		for i, c := range columns {
			names[i] = c.heading
			if p.follow && i < len(columns)-1 {
				p.text.widths = append(p.text.widths, c.usual)
			}
		}
		rows = append(rows, heading(names...))
	}
	for _, e := range all {
		row := make([]styled, len(columns))
		for i, c := range columns {
			row[i].text = oneLine(c.cell(e, p.when))
			if c.colour != nil {
				row[i].code = c.colour(e)
			}
		}
		rows = append(rows, row)
	}
	return p.write(p.text.rows(rows...), nil)
}

// when writes a time: as an age, as kubectl does, or as a time of day where the
// line is still read when the age is no longer true.
func (p *eventPrinter) when(t time.Time) string {
	const day = 24 * time.Hour
	age := p.now().Sub(t)
	switch {
	case t.IsZero():
		return "<unknown>"
	case p.follow && age < day:
		return t.In(p.now().Location()).Format(time.TimeOnly)
	default:
		return duration.HumanDuration(age)
	}
}
