package cluster

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// shop is a group and version whose kinds the tests change.
var shop = schema.GroupVersion{Group: "shop.example.com", Version: "v1"}

// discovered is an API server that serves shop.
type discovered struct {
	resources []metav1.APIResource
	// code is what it answers; 200 if it is 0.
	code int
	// asked is how often it was asked.
	asked int
}

// serve has it serve kinds from now on.
func (d *discovered) serve(kinds ...string) {
	d.resources = nil
	for _, kind := range kinds {
		d.resources = append(d.resources, metav1.APIResource{Name: strings.ToLower(kind) + "s", Kind: kind, Namespaced: true})
	}
}

// discover is a Cluster, in a synctest bubble, whose API server serves shop.
func discover(t *testing.T) (*Cluster, *discovered) {
	t.Helper()
	d := &discovered{}
	c, err := New(&rest.Config{Host: "https://example.com", Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		require.Equal(t, "/apis/"+shop.String(), r.URL.Path)
		d.asked++
		if d.code != 0 {
			return answered(d.code), nil
		}
		body, err := json.Marshal(metav1.APIResourceList{GroupVersion: shop.String(), APIResources: d.resources})
		return &http.Response{
			StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
			Body: io.NopCloser(strings.NewReader(string(body))),
		}, err
	})})
	require.NoError(t, err)
	return c, d
}

// TestKindThatComesToAKnownVersion asks for a kind that a group and version gets later,
// without that anybody has said so: an aggregated API server has another version, or
// Vidra may not watch which kinds come and go.
func TestKindThatComesToAKnownVersion(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		// then is what the API server does from now on.
		then func(d *discovered)
		// thing and other say whether the kinds are served afterwards.
		thing, other bool
	}{
		"it comes":             {"what is missing is what somebody waits for", func(d *discovered) { d.serve("Thing", "Other") }, true, true},
		"it does not come":     {"nothing has changed", func(*discovered) {}, true, false},
		"it cannot say":        {"what it said before counts", func(d *discovered) { d.code = http.StatusInternalServerError }, true, false},
		"the version goes":     {"it says so", func(d *discovered) { d.code = http.StatusNotFound }, false, false},
		"the kind is replaced": {"it says so", func(d *discovered) { d.serve("Other") }, false, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c, d := discover(t)
				d.serve("Thing")
				require.True(t, has(t, c, "Thing"))
				require.False(t, has(t, c, "Other"))
				tc.then(d)
				require.False(t, has(t, c, "Other"), "it was asked a moment ago")
				require.Equal(t, 1, d.asked)
				time.Sleep(absenceTTL)
				_, _ = c.Mapping(t.Context(), shop.WithKind("Other")) // it may fail
				require.Equal(t, 2, d.asked)
				require.Equal(t, tc.other, has(t, c, "Other"), tc.reason)
				require.Equal(t, tc.thing, d.code != http.StatusNotFound && has(t, c, "Thing"), tc.reason)
			})
		})
	}
}

// TestKindThatIsMissing counts the requests for a kind that many want, and that never
// comes.
func TestKindThatIsMissing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, d := discover(t)
		d.serve("Thing")
		for range 600 {
			require.False(t, has(t, c, "Other"))
			require.True(t, has(t, c, "Thing"))
			time.Sleep(100 * time.Millisecond)
		}
		require.Equal(t, int(time.Minute/absenceTTL), d.asked)
		time.Sleep(time.Hour)
		require.True(t, has(t, c, "Thing"))
		require.Equal(t, int(time.Minute/absenceTTL), d.asked, "for what is there nobody asks again")
	})
}

// TestKindThatCannotBeKept reads the verbs of kinds.
func TestKindThatCannotBeKept(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		verbs  []string
		want   []string
	}{
		"all":      {"it can be kept", []string{"create", "delete", "get", "list", "patch", "update", "watch"}, nil},
		"a review": {"nothing of it is stored", []string{"create"}, []string{"get", "patch", "delete"}},
		"metrics":  {"it can be read only", []string{"get", "list"}, []string{"patch", "delete"}},
		"none":     {"the API server does not say", nil, nil},
		"no watch": {"the watch says so itself, and is not always wanted", []string{"get", "patch", "delete"}, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c, d := discover(t)
				d.serve("Thing")
				d.resources[0].Verbs = tc.verbs
				mapping, err := c.Mapping(t.Context(), shop.WithKind("Thing"))
				require.NoError(t, err)
				require.Equal(t, tc.want, mapping.MissingVerbs, tc.reason)
				served, err := c.ServesKind(t.Context(), shop.WithKind("Thing"))
				require.NoError(t, err)
				require.Equal(t, tc.want == nil, served, "who waits for it waits for what can be kept")

				d.resources[0].Verbs = neededVerbs
				time.Sleep(absenceTTL)
				served, err = c.ServesKind(t.Context(), shop.WithKind("Thing"))
				require.NoError(t, err)
				require.True(t, served, "it is noticed when it can")
			})
		})
	}
}

// has says whether a kind of shop is served.
func has(t *testing.T, c *Cluster, kind string) bool {
	t.Helper()
	_, err := c.Mapping(t.Context(), shop.WithKind(kind))
	if !meta.IsNoMatchError(err) {
		require.NoError(t, err)
	}
	return err == nil
}
