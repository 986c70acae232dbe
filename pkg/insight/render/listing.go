package render

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// Listing collects VidraResources as the API server answers them: as tables, lists or single objects.
type Listing struct {
	// Within are the names of those that are listed; nil for all.
	Within sets.Set[string]

	table *metav1.Table
	items []*unstructured.Unstructured
}

// Add adds an answer.
func (l *Listing) Add(obj runtime.Object) error {
	if list, is := obj.(*unstructured.UnstructuredList); is {
		return list.EachListItem(l.Add)
	}
	u, ok := obj.(*unstructured.Unstructured)
	switch {
	case !ok:
		return fmt.Errorf("the API server answered with %T", obj)
	case u.GetKind() != "Table" && u.IsList():
		return u.EachListItem(l.Add)
	case u.GetKind() != "Table":
		if l.Within == nil || l.Within.Has(u.GetName()) {
			u.SetManagedFields(nil)
			l.items = append(l.items, u)
		}
		return nil
	}
	table := &metav1.Table{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, table); err != nil {
		return fmt.Errorf("read the table of the API server: %w", err)
	}
	if l.table == nil {
		l.table = table.DeepCopy()
		l.table.Rows = nil
	}
	for _, row := range table.Rows {
		if l.Within == nil || len(row.Cells) > 0 && l.Within.Has(fmt.Sprint(row.Cells[0])) {
			l.table.Rows = append(l.table.Rows, row)
		}
	}
	return nil
}

// Empty reports whether there is no table with rows.
func (l *Listing) Empty() bool { return l.table == nil || len(l.table.Rows) == 0 }

// Names returns the names with their resource, one in each line.
func (l *Listing) Names() string {
	var b strings.Builder
	for _, u := range l.items {
		fprintf(&b, "vidraresource.%s/%s\n", v1alpha1.GroupVersion.Group, u.GetName())
	}
	return b.String()
}

// Document returns the objects as a List, or the only one if it was asked for by name.
func (l *Listing) Document(single bool) any {
	if single && len(l.items) == 1 {
		return l.items[0]
	}
	items := l.items
	if items == nil {
		items = []*unstructured.Unstructured{}
	}
	return map[string]any{"apiVersion": "v1", "kind": "List", "items": items}
}

// Table returns the table of the API server.
func (l *Listing) Table(wide bool) (string, error) {
	for i := range l.table.ColumnDefinitions {
		l.table.ColumnDefinitions[i].Name = Line(l.table.ColumnDefinitions[i].Name)
	}
	for _, row := range l.table.Rows {
		for i, value := range row.Cells {
			if text, isText := value.(string); isText {
				row.Cells[i] = Line(text)
			}
		}
	}
	var b strings.Builder
	writer := printers.GetNewTabWriter(&b)
	if err := printers.NewTablePrinter(printers.PrintOptions{Wide: wide}).PrintObj(l.table, writer); err != nil {
		return "", fmt.Errorf("print: %w", err)
	}
	if err := writer.Flush(); err != nil {
		return "", fmt.Errorf("print: %w", err)
	}
	return b.String(), nil
}
