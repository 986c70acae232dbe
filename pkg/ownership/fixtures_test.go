package ownership

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// widget is a custom resource with content, the members of a JSON object, and
// entries of managedFields.
func widget(t *testing.T, content string, managed ...string) *unstructured.Unstructured {
	t.Helper()
	return object(t, fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w","managedFields":[%s]},%s}`,
		strings.Join(managed, ","), content))
}

// ours is the entry of what our manager applied.
func ours(fields string) string { return managed(manager, "Apply", "2026-01-02T03:04:05Z", fields) }

// theirs is the entry of another manager, who wrote after us.
func theirs(name, fields string) string {
	return managed(name, "Update", "2026-01-02T03:05:00Z", fields)
}

func managed(name, operation, when, fields string) string {
	return fmt.Sprintf(`{"manager":%q,"operation":%q,"apiVersion":"example.com/v1","time":%q,"fieldsType":"FieldsV1","fieldsV1":%s}`,
		name, operation, when, fields)
}

// parts is the content of a list of n items, told apart by two keys, that begins
// with the item number first.
func parts(n, first int, size func(int) int) string {
	items := make([]string, n)
	for i := range items {
		id := (first + i) % n
		items[i] = fmt.Sprintf(`{"name":"part","port":%d,"size":%d}`, id, size(id))
	}
	return fmt.Sprintf(`"spec":{"parts":[%s]}`, strings.Join(items, ","))
}

// partsFields is the owned tree of parts.
func partsFields(n int) string {
	return fmt.Sprintf(`{"f:spec":{"f:parts":{%s}}}`,
		repeat(n, `"k:{\"name\":\"part\",\"port\":%d}":{".":{},"f:name":{},"f:port":{},"f:size":{}}`))
}
