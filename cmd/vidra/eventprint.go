package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/yaml"
)

// Values of -o.
const (
	outputWide = "wide"
	outputJSON = "json"
	outputYAML = "yaml"
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

	// widths of the columns of the table so far.
	widths []int
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
	document, err := p.marshal(listOf(all))
	return p.write(string(document), err)
}

// marshal is a document: one of several where Events are followed, and then a
// line if it is JSON.
func (p *eventPrinter) marshal(o any) ([]byte, error) {
	document, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	document = safeJSON(document)
	switch {
	case p.output == outputYAML:
		document, err = yaml.JSONToYAML(document)
		if p.follow {
			document = append([]byte("---\n"), document...)
		}
		return document, err
	case p.follow:
		return append(document, '\n'), nil
	}
	var indented bytes.Buffer
	err = json.Indent(&indented, append(document, '\n'), "", "    ")
	return indented.Bytes(), err
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

// table prints Events as rows of one table, the first time with a heading. A
// column becomes wider when it has to, and never narrower.
func (p *eventPrinter) table(all []*eventsv1.Event) error {
	if len(all) == 0 {
		return nil
	}
	columns := p.columns()
	first := p.widths == nil
	if first {
		p.widths = make([]int, len(columns))
		for i, c := range columns {
			p.widths[i] = len(c.heading)
			if p.follow {
				p.widths[i] = max(p.widths[i], c.usual)
			}
		}
	}
	rows := make([][]string, len(all))
	for r, e := range all {
		for i, c := range columns {
			text := oneLine(c.cell(e, p.when))
			rows[r] = append(rows[r], text)
			if i < len(columns)-1 {
				p.widths[i] = max(p.widths[i], utf8.RuneCountInString(text))
			}
		}
	}
	var b strings.Builder
	if first {
		for i, c := range columns {
			b.WriteString(p.cell(i, c.heading, faint))
		}
	}
	for r, e := range all {
		for i, c := range columns {
			code := ""
			if c.colour != nil {
				code = c.colour(e)
			}
			b.WriteString(p.cell(i, rows[r][i], code))
		}
	}
	return p.write(b.String(), nil)
}

// cell pads the text of a column, three blanks apart like kubectl, or ends the
// line with it.
func (p *eventPrinter) cell(column int, text, code string) string {
	const gap = 3
	end := "\n"
	if column < len(p.widths)-1 {
		end = strings.Repeat(" ", p.widths[column]-utf8.RuneCountInString(text)+gap)
	}
	if p.colour && code != "" {
		text = "\x1b[" + code + "m" + text + "\x1b[0m"
	}
	return text + end
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
