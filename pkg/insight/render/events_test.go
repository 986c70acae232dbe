package render

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/vidra-operator/vidra/pkg/insight/internal/eventtest"
	"github.com/vidra-operator/vidra/pkg/terminal"
)

// wide is a table with all columns.
const wide = "wide"

// newPrinter prints to a buffer, at eventtest.Noon.
func newPrinter(output string, follow bool) (*EventPrinter, *bytes.Buffer) {
	out := &bytes.Buffer{}
	p := &EventPrinter{Out: out, Format: output, Follow: follow, Now: func() time.Time { return eventtest.Noon }}
	if p.Wide = output == wide; p.Wide {
		p.Format = ""
	}
	return p, out
}

func TestEventTable(t *testing.T) {
	failed := eventtest.New("failed", "ApplyFailed", 2*time.Hour, eventtest.Resource, nil)
	failed.Type, failed.Note = corev1.EventTypeWarning, "denied:\n\x1b[2Jno"
	failed.Series = &eventsv1.EventSeries{Count: 12, LastObservedTime: metav1.NewMicroTime(eventtest.Noon.Add(-time.Hour))}
	all := []*eventsv1.Event{failed, eventtest.Reverted()}

	p, out := newPrinter("", false)
	require.NoError(t, p.Print(all))
	require.Equal(t, `LAST SEEN   COUNT   TYPE      REASON           OBJECT                    NOTE
60m         12      Warning   ApplyFailed      VidraResource web         denied:\n\x1b[2Jno
60s         1       Normal    ChangeReverted   ConfigMap shop/settings   reverted
`, out.String())

	p, out = newPrinter(wide, false)
	require.NoError(t, p.Print(all))
	lines := strings.Split(out.String(), "\n")
	require.Equal(t, []string{
		"LAST", "SEEN", "FIRST", "SEEN", "COUNT", "TYPE", "REASON", "ACTION", "OBJECT", "RELATED", "INSTANCE", "NAMESPACE", "NOTE",
	}, strings.Fields(lines[0]))
	require.Equal(t, []string{
		"60s", "60s", "1", "Normal", "ChangeReverted", "Restore", "ConfigMap", "shop/settings", "VidraResource", "web",
		"vidra-operator-0", "shop", "reverted",
	}, strings.Fields(lines[2]))
	require.True(t, strings.HasPrefix(lines[1], "60m         120m "), lines[1])

	p, out = newPrinter("", false)
	p.Colour = true
	require.NoError(t, p.Print(all))
	var written bytes.Buffer
	_, err := (&terminal.Writer{Out: &written}).Write(out.Bytes())
	require.NoError(t, err)
	require.Contains(t, written.String(), "\x1b[33mWarning\x1b[0m   \x1b[31mApplyFailed\x1b[0m      Vidra", "colours do not count as width")
	require.Contains(t, written.String(), `denied:\n\x1b[2Jno`, "those of others are not passed on")
}

func TestEventTableFollows(t *testing.T) {
	p, out := newPrinter("", true)
	require.NoError(t, p.Print(nil))
	require.Empty(t, out.String())
	require.NoError(t, p.Print([]*eventsv1.Event{eventtest.Corrected()}))
	require.NoError(t, p.Print([]*eventsv1.Event{eventtest.Reverted(), eventtest.New("long ago", "Applied", 50*time.Hour, eventtest.Resource, nil)}))
	require.Equal(t, `LAST SEEN   COUNT   TYPE      REASON            OBJECT                           NOTE
11:59:00    1       Normal    DriftCorrected    VidraResource web                reverted
11:59:00    1       Normal    ChangeReverted    ConfigMap shop/settings          reverted
2d2h        1       Normal    Applied           VidraResource web                reverted
`, out.String(), "one heading, and columns that stand still")
}

// yamlReader reads a YAML document.
func yamlReader(document []byte, into any) error { return yaml.Unmarshal(document, into) }

func TestEventDocuments(t *testing.T) {
	hostile := eventtest.Corrected()
	hostile.Note = "\x1b[31m \u009b31m \u202e \U000e0041 \x7f \"quoted\"\n"
	hostile.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "vidra-operator"}}
	all := []*eventsv1.Event{hostile, eventtest.Reverted()}
	wanted := func(t *testing.T, items []eventsv1.Event) {
		t.Helper()
		require.Len(t, items, len(all))
		require.Equal(t, hostile.Note, items[0].Note, "nothing is lost")
		require.Empty(t, items[0].ManagedFields)
		for i, item := range items {
			require.Equal(t, "events.k8s.io/v1", item.APIVersion)
			require.Equal(t, "Event", item.Kind)
			require.Equal(t, all[i].Name, item.Name)
		}
	}
	safe := func(t *testing.T, text string) {
		t.Helper()
		require.Equal(t, -1, strings.IndexFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }), "%q", text)
	}
	for _, output := range []string{JSON, YAML} {
		t.Run(output, func(t *testing.T) {
			p, out := newPrinter(output, false)
			require.NoError(t, p.Print(all))
			safe(t, out.String())
			var list struct {
				APIVersion, Kind string
				Items            []eventsv1.Event
			}
			read := yamlReader
			if output == JSON {
				read = json.Unmarshal
			}
			require.NoError(t, read(out.Bytes(), &list))
			require.Equal(t, "v1 List", list.APIVersion+" "+list.Kind)
			wanted(t, list.Items)

			p, out = newPrinter(output, false)
			require.NoError(t, p.Print(nil))
			require.Contains(t, out.String(), "[]", "a list of nothing is a list")

			p, out = newPrinter(output, true)
			require.NoError(t, p.Print(all[:1]))
			require.NoError(t, p.Print(all[1:]))
			require.NoError(t, p.Print(nil))
			safe(t, out.String())
			documents := strings.Split(strings.TrimPrefix(out.String(), "---\n"), "---\n")
			if output == JSON {
				require.NotContains(t, out.String(), "---")
				documents = strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
			}
			items := make([]eventsv1.Event, len(documents))
			for i, document := range documents {
				require.NoError(t, read([]byte(document), &items[i]))
				require.True(t, output == YAML || json.Valid([]byte(document)))
			}
			wanted(t, items)
		})
	}
}

// full is a disk that is full.
type full struct{}

var errFull = errors.New("no space left")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestEventsToFullDisk(t *testing.T) {
	for _, output := range []string{"", wide, JSON, YAML} {
		for _, follow := range []bool{false, true} {
			p, _ := newPrinter(output, follow)
			p.Out = full{}
			require.ErrorIs(t, p.Print([]*eventsv1.Event{eventtest.Corrected()}), errFull)
		}
	}
}
