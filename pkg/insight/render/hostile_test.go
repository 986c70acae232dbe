package render

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/internal/fixture"
)

// one is the only VidraResource.
type one struct{ *v1alpha1.VidraResource }

func (o one) Get(context.Context, string) (*v1alpha1.VidraResource, error) {
	return o.VidraResource, nil
}

func (o one) List(context.Context, string) ([]*v1alpha1.VidraResource, error) {
	return []*v1alpha1.VidraResource{o.VidraResource}, nil
}

// answers are the answers of an API server that has the ConfigMap shop/page.
var answers = map[string]string{
	"/api":                               `{"kind":"APIVersions","versions":["v1"]}`,
	"/apis":                              `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`,
	"/api/v1":                            `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[{"name":"configmaps","singularName":"configmap","namespaced":true,"kind":"ConfigMap","verbs":["get","list"]}]}`,
	"/api/v1/namespaces/shop/configmaps": `{"kind":"ConfigMapList","apiVersion":"v1","items":[]}`,
	"/api/v1/namespaces/shop/configmaps/page": `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"page","namespace":"shop","uid":"1","annotations":{"vidraresource.infrahub.operators.com/owned-by":"shop"}},
		"data":{"color":"blue"}}`,
}

// TestHostileStatus: the answers about a VidraResource with any status that another client may write.
func TestHostileStatus(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		text := answers[r.URL.Path]
		switch {
		case text != "":
		case strings.HasPrefix(r.URL.Path, "/apis/events.k8s.io/"):
			text = `{"kind":"EventList","apiVersion":"events.k8s.io/v1","items":[]}`
		default:
			w.WriteHeader(http.StatusNotFound)
			text = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"details":{"name":"none"}}`
		}
		_, _ = io.WriteString(w, text)
	}))
	defer server.Close()
	vr := &v1alpha1.VidraResource{Spec: v1alpha1.VidraResourceSpec{Manifest: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: page, namespace: shop}\ndata: {color: blue}\n"}}
	vr.Name = "shop"
	c, err := insight.New(&rest.Config{Host: server.URL}, insight.Options{VidraResources: one{vr}})
	require.NoError(t, err)
	page := insight.Target{Kind: "configmap", Namespace: "shop", Name: "page"}
	style, now := Style{Wide: true, Now: time.Now()}, time.Now()
	for seed := range uint64(fixture.HostileSeeds) {
		vr.Status = fixture.HostileStatus(seed)
		vr.Status.ManagedResources = append(vr.Status.ManagedResources, v1alpha1.ManagedResourceStatus{
			APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "page", BreakGlass: breakGlassOf(vr.Status.ManagedResources),
		})
		for i := range vr.Status.History {
			if i%2 == 0 {
				vr.Status.History[i].Object = v1alpha1.ProblemObject{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "page"}
			}
		}
		require.NotPanics(t, func() {
			status, err := c.Status(t.Context(), insight.StatusQuery{})
			require.NoError(t, err)
			require.NotEmpty(t, style.Status(status))
			require.NotEmpty(t, style.Report(status.VidraResources[0]))
			why, err := c.Why(t.Context(), page)
			require.NoError(t, err)
			require.NotEmpty(t, style.Why(why))
			blame, err := c.Blame(t.Context(), page, false)
			require.NoError(t, err)
			require.NotEmpty(t, style.Blame(blame))
			if kept, err := c.Keep(t.Context(), page, nil); err == nil {
				require.NotEmpty(t, style.Kept(kept))
			}
			tree, err := c.Tree(t.Context(), insight.TreeQuery{VidraResource: "shop"})
			require.NoError(t, err)
			require.NotEmpty(t, style.Tree(tree)+TreeNames(tree))
			for _, q := range []insight.HistoryQuery{{}, {Target: &page}, {Since: now}} {
				history, err := c.History(t.Context(), q)
				require.NoError(t, err)
				_ = style.History(history) + HistoryNames(history)
			}
			revisions, err := c.Revisions(t.Context(), "shop")
			require.NoError(t, err)
			_ = style.Revisions(revisions)
			for _, state := range []string{"ready", "healthy", "deleted"} {
				insight.InState(vr, state)
			}
			insight.Words([]*v1alpha1.VidraResource{vr}, "shop", "")
			for _, answer := range []any{status, why, tree, revisions} {
				_, err := Document("yaml", answer)
				require.NoError(t, err)
			}
		}, "seed %d", seed)
	}
}

// breakGlassOf is the first answer to break-glass annotations in an inventory, or nil.
func breakGlassOf(entries []v1alpha1.ManagedResourceStatus) *v1alpha1.BreakGlassStatus {
	for _, e := range entries {
		if e.BreakGlass != nil {
			return e.BreakGlass
		}
	}
	return nil
}
