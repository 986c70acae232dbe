package desired

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/internal/fixture"
)

// TestWorkOfManyRefusedFields has the API server refuse 10,000 fields of an object: it is decoded once for all of them.
func TestWorkOfManyRefusedFields(t *testing.T) {
	const refused = 10_000
	var items []any
	var fields []string
	for i := range refused {
		items = append(items, map[string]any{"name": fmt.Sprintf("item-%d", i), "value": "a"})
		fields = append(fields, fmt.Sprintf("spec.items[%d].value", i))
	}
	body, err := json.Marshal(map[string]any{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "a"}, "spec": map[string]any{"items": items}})
	require.NoError(t, err)
	o := &Object{Body: body}
	require.Less(t, fixture.ProcessorTime(t, func() { require.True(t, o.SetsAll(fields)) }), time.Second)
	require.False(t, o.SetsAll(append(fields, "spec.other")))
}
