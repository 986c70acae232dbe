package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// table is a list as the API server prints it for kubectl
// (https://kubernetes.io/docs/reference/using-api/api-concepts/#receiving-resources-as-tables).
type table struct {
	metav1.Table
	// objects of the rows.
	objects []row
}

// row is what is read of the object of a row; only an Event has more than
// metadata.
type row struct {
	Metadata       metav1.ObjectMeta       `json:"metadata"`
	InvolvedObject corev1.ObjectReference  `json:"involvedObject"`
	Related        *corev1.ObjectReference `json:"related"`
	EventTime      metav1.MicroTime        `json:"eventTime"`
}

// table asks the API server for a list, printed.
func (c *cluster) table(ctx context.Context, path string) (*table, error) {
	body, err := c.core.Get().AbsPath(path).Param("includeObject", string(metav1.IncludeObject)).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(ctx).Raw()
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", path, err)
	}
	return parseTable(body)
}

func parseTable(body []byte) (*table, error) {
	t := &table{}
	if err := json.Unmarshal(body, &t.Table); err != nil {
		return nil, fmt.Errorf("read a table of the API server: %w", err)
	}
	t.objects = make([]row, len(t.Rows))
	for i, r := range t.Rows {
		if err := json.Unmarshal(r.Object.Raw, &t.objects[i]); err != nil {
			return nil, fmt.Errorf("read a row of the API server: %w", err)
		}
	}
	return t, nil
}

// sortByTime puts Events into the order in which they happened.
func (t *table) sortByTime() {
	order := make([]int, len(t.Rows))
	for i := range order {
		order[i] = i
	}
	at := func(i int) time.Time { return t.objects[i].EventTime.Time }
	slices.SortStableFunc(order, func(a, b int) int { return at(a).Compare(at(b)) })
	rows, objects := make([]metav1.TableRow, len(order)), make([]row, len(order))
	for i, from := range order {
		rows[i], objects[i] = t.Rows[from], t.objects[from]
	}
	t.Rows, t.objects = rows, objects
}

// rows are the cells of the rows that keep wants, and of a heading, in the
// columns that kubectl shows without -o wide.
func (t *table) rows(keep func(row) bool) [][]string {
	var heading []string
	var columns []int
	for i, column := range t.ColumnDefinitions {
		if column.Priority == 0 {
			columns = append(columns, i)
			heading = append(heading, strings.ToUpper(column.Name))
		}
	}
	all := [][]string{heading}
	for i, r := range t.Rows {
		if !keep(t.objects[i]) {
			continue
		}
		var cells []string
		for _, column := range columns {
			cells = append(cells, cell(r.Cells[column]))
		}
		all = append(all, cells)
	}
	return all
}

// cell is a cell as kubectl prints it: nothing for null, and one line only.
func cell(value any) string {
	if value == nil {
		return ""
	}
	line, _, more := strings.Cut(fmt.Sprint(value), "\n")
	if more {
		line += "..."
	}
	return line
}
