package apply

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/ownership"
)

// TestShownFields: the message about a refused revert names ten of the fields. An answer may have tens of thousands.
func TestShownFields(t *testing.T) {
	t.Parallel()
	known := ownership.Disclose(false, false, false)
	require.Equal(t, "spec.a, spec.b", shownFields([]string{"spec.a", "spec.b"}, known))
	var many []string
	for i := range 20_000 {
		many = append(many, fmt.Sprintf("spec.fields[%d].name", i))
	}
	text := shownFields(many, known)
	require.Contains(t, text, "spec.fields[9].name and 19990 more")
	require.Less(t, len(text), 400)
}
