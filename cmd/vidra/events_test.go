package main

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/events"
)

func TestEventsFlags(t *testing.T) {
	t.Setenv("HOME", t.TempDir()) // no kubeconfig is in there
	t.Setenv("KUBECONFIG", "")
	tests := map[string]struct {
		reason string
		args   []string
		says   []string
	}{
		"type":          {reason: "what is allowed is said", args: []string{"--type", "Error"}, says: []string{`--type "Error": want Normal or Warning`}},
		"reason":        {reason: "all of them", args: []string{"--reason", "Applied,Fixed"}, says: []string{`--reason "Fixed"`, "DriftCorrected, ", "or WatchRestored"}},
		"output":        {reason: "what is allowed is said", args: []string{"-o", "xml"}, says: []string{`--output "xml": want wide, json or yaml`}},
		"since":         {reason: "a number needs a unit", args: []string{"--since", "10"}, says: []string{`--since "10": want a duration`, "10m"}},
		"future":        {reason: "nothing was seen in the future", args: []string{"--since", "-10m"}, says: []string{`--since "-10m": want a duration above 0`}},
		"for":           {reason: "a name alone is no object", args: []string{"--for", "web"}, says: []string{`--for "web": want KIND/NAME`}},
		"for namespace": {reason: "the namespace is a flag", args: []string{"--for", "pod/shop/web"}, says: []string{"the namespace with -n"}},
		"for nothing":   {reason: "both parts are needed", args: []string{"--for", "pod/"}, says: []string{"want KIND/NAME"}},
		"VidraResource": {reason: "a name alone", args: []string{"--vidraresource", "vr/web"}, says: []string{`--vidraresource "vr/web": want the name`}},
		"namespace":     {reason: "a name alone", args: []string{"-n", "a b"}, says: []string{`--namespace "a b": want the name`}},
		"contradiction": {reason: "nothing is guessed", args: []string{"-A", "-n", "web"}, says: []string{"all-namespaces namespace"}},
		"argument":      {reason: "one of them would be ignored", args: []string{"web", "--vidraresource", "shop"}, says: []string{"NAME and --vidraresource exclude each other"}},
		"kubeconfig":    {reason: "which file it is", args: []string{"--kubeconfig", "missing"}, says: []string{"--kubeconfig missing: "}},
		"no cluster":    {reason: "what to do", args: nil, says: []string{"set KUBECONFIG or --kubeconfig"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			root := newRoot()
			root.SetArgs(append([]string{"events"}, tt.args...))
			root.SetErr(&out)
			require.Equal(t, exitFailed, run(t.Context(), root), tt.reason)
			for _, text := range tt.says {
				require.Contains(t, out.String(), text, tt.reason)
			}
		})
	}
}

// TestEventReasons has every reason of the catalogue taken, in the order in which a
// person looks for one.
func TestEventReasons(t *testing.T) {
	reasons := eventReasons()
	require.Len(t, reasons, len(events.Catalogue()))
	require.Contains(t, reasons, "DriftCorrected")
	require.True(t, slices.IsSorted(reasons))
}
