package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/vidra-operator/vidra/pkg/terminal"
)

// EventPrinter prints Events. Where more Events follow, each call of Print prints those
// that are new; else there is one call.
type EventPrinter struct {
	Out io.Writer
	// Format is JSON or YAML; empty for a table.
	Format string
	// Wide adds columns to a table, and Colour ANSI codes.
	Wide, Colour bool
	// Follow reports that more Events follow.
	Follow bool
	// Now is the present time.
	Now func() time.Time

	// text is the table so far; nil before its first row.
	text *textTable
}

// Print prints Events. A table without rows is empty.
func (p *EventPrinter) Print(all []*eventsv1.Event) error {
	switch {
	case p.Format == "":
		return p.table(all)
	case p.Follow:
		return p.documents(all)
	}
	return p.write(Document(p.Format, EventList(all)))
}

// marshal is one of several documents, and a line if it is JSON.
func (p *EventPrinter) marshal(o any) ([]byte, error) {
	document, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	if p.Format == YAML {
		document, err = safeDocument(document, true)
		return append([]byte("---\n"), document...), err
	}
	return []byte(terminal.EscapeJSON(string(document) + "\n")), nil
}

func (p *EventPrinter) write(text string, err error) error {
	if err == nil {
		_, err = io.WriteString(p.Out, text)
	}
	if err != nil {
		return fmt.Errorf("print Events: %w", err)
	}
	return nil
}

// documents prints each Event as a document of its own.
func (p *EventPrinter) documents(all []*eventsv1.Event) error {
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

// typed returns an Event with apiVersion and kind, which the items of a list lack, and without
// managedFields.
func typed(e *eventsv1.Event) *eventsv1.Event {
	e = e.DeepCopy()
	e.SetGroupVersionKind(eventsv1.SchemeGroupVersion.WithKind("Event"))
	e.ManagedFields = nil
	return e
}

// EventList returns Events as a list, as kubectl prints it.
func EventList(all []*eventsv1.Event) *metav1.List {
	list := &metav1.List{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "List"}, Items: []runtime.RawExtension{}}
	for _, e := range all {
		list.Items = append(list.Items, runtime.RawExtension{Object: typed(e)})
	}
	return list
}

// table prints Events as rows of one table, the first time with a heading.
func (p *EventPrinter) table(all []*eventsv1.Event) error {
	if len(all) == 0 {
		return nil
	}
	columns := slices.DeleteFunc(slices.Clone(eventColumns), func(c eventColumn) bool { return c.wide && !p.Wide })
	var rows [][]styled
	if p.text == nil {
		p.text = &textTable{colour: p.Colour}
		names := make([]string, len(columns))
		for i, c := range columns {
			names[i] = c.heading
			if p.Follow && i < len(columns)-1 {
				p.text.widths = append(p.text.widths, c.usual)
			}
		}
		rows = append(rows, heading(names...))
	}
	for _, e := range all {
		row := make([]styled, len(columns))
		for i, c := range columns {
			row[i].text = Line(c.cell(e, p.when))
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
func (p *EventPrinter) when(t time.Time) string {
	const day = 24 * time.Hour
	now := p.Now()
	if p.Follow && !t.IsZero() && now.Sub(t) < day {
		return t.In(now.Location()).Format(time.TimeOnly)
	}
	return ageOf(t, now)
}
