package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/export"
	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/insight/render"
	"github.com/vidra-operator/vidra/pkg/writes/migrate"
)

// badAnswer is an answer to a request that the API server did not decide about, or refused.
type badAnswer struct {
	name string
	// code is its status; 0 for a connection that breaks.
	code int
	body string
	// traces are texts of which one is in an answer that names the failure.
	traces []string
}

// badAnswers are the answers of a cluster or of a proxy before it.
var badAnswers = []badAnswer{
	{"forbidden", http.StatusForbidden, statusOf(http.StatusForbidden, metav1.StatusReasonForbidden, `things is forbidden: User "jane" cannot see things in API group "": outage`), []string{"outage", "you may not", "accepts no apply", "unknown"}}, // "unknown" is the text of discovery
	{"unavailable", http.StatusServiceUnavailable, statusOf(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "outage"), []string{"outage", "currently unable", "serviceunavailable"}},
	{"not found by a proxy", http.StatusNotFound, "<html>outage</html>", []string{"outage", "could not find the requested resource", "notfound; its"}},
	{"expired", http.StatusGone, statusOf(http.StatusGone, metav1.StatusReasonExpired, "outage"), []string{"outage", "status code 410", "answered expired"}},
	{"reset", 0, "", []string{"outage"}},
	{staleGroup, http.StatusOK, "", []string{"stale", "does not answer", "no matches for kind"}},
}

// staleGroup is the name of the answer to discovery of an API server that does not know the kinds of a group: those of apps.
const staleGroup = "stale group"

// withStaleGroup removes the kinds of apps from an answer to discovery.
func withStaleGroup(r *http.Response) (*http.Response, error) {
	return changeDiscovery(r, func(all *apidiscoveryv2.APIGroupDiscoveryList) {
		for i := range all.Items {
			for j := range all.Items[i].Versions {
				if version := &all.Items[i].Versions[j]; all.Items[i].Name == "apps" {
					version.Freshness, version.Resources = apidiscoveryv2.DiscoveryFreshnessStale, nil
				}
			}
		}
	})
}

// changeDiscovery changes the groups of an answer to discovery.
func changeDiscovery(r *http.Response, change func(*apidiscoveryv2.APIGroupDiscoveryList)) (*http.Response, error) {
	list := &apidiscoveryv2.APIGroupDiscoveryList{}
	body, err := io.ReadAll(r.Body)
	if err = errors.Join(err, r.Body.Close(), json.Unmarshal(body, list)); err != nil {
		return nil, err
	}
	change(list)
	kind := r.Header.Get("Content-Type")
	err = replaceBody(r, r.StatusCode, list)
	r.Header.Set("Content-Type", kind)
	return r, err
}

func statusOf(code int, reason metav1.StatusReason, message string) string {
	text, _ := json.Marshal(metav1.Status{ // it has no field that cannot be encoded
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message, //nolint:gosec // a status of HTTP
	})
	return string(text)
}

// faulty answers the requests of one key with a badAnswer. Its fields are for one question at a time.
type faulty struct {
	next http.RoundTripper
	mu   sync.Mutex // guards seen
	seen []string
	key  string
	give badAnswer
}

// keyOf is the key of a request: its method and path, and whether it is a dry run, a watch or a list.
func keyOf(r *http.Request) string {
	key, query := r.Method+" "+r.URL.Path, r.URL.Query()
	for _, name := range []string{"dryRun", "watch", "labelSelector"} {
		if query.Get(name) != "" {
			key += " " + name
		}
	}
	return key
}

// harmless reports whether the answer to a request decides about no fact: the search for a free name, and for fields that an export may leave out. An API
// server without those kinds, or without VidraResources, answers with 404, too.
func harmless(question, key string, bad badAnswer) bool {
	unserved := slices.Contains([]string{"GET /api", "GET /api/v1", "GET /apis/apps/v1"}, key) || question == "diff of objects" && strings.HasSuffix(key, "/vidraresources")
	return strings.HasPrefix(key, "PUT ") || strings.HasSuffix(key, "/vidraresources/new") || unserved && bad.code == http.StatusNotFound
}

func (f *faulty) RoundTrip(r *http.Request) (*http.Response, error) {
	key := keyOf(r)
	f.mu.Lock()
	if !slices.Contains(f.seen, key) {
		f.seen = append(f.seen, key)
	}
	f.mu.Unlock()
	if key != f.key {
		return f.next.RoundTrip(r)
	}
	if f.give.name == staleGroup {
		answer, err := f.next.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		return withStaleGroup(answer)
	}
	if f.give.code == 0 {
		return nil, errors.New("outage")
	}
	kind := "application/json"
	if !strings.HasPrefix(f.give.body, "{") {
		kind = "text/html"
	}
	return &http.Response{
		StatusCode: f.give.code, Status: http.StatusText(f.give.code), Proto: r.Proto, ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(bytes.NewReader([]byte(f.give.body))),
	}, nil
}

// TestBadAnswers asks each question while one of its requests gets a bad answer: the question fails with the failure, has the same answer as
// without it, or names the failure beside its answer.
func TestBadAnswers(t *testing.T) { // alone: its VidraResource has a part that the users of other tests may not read
	const ns = "bad-answers"
	makeNamespace(t, ns)
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: ns, Name: name, Labels: map[string]string{"app": "bad"}}
	}
	require.NoError(t, admin.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: meta("parts"), Data: map[string]string{"a.yaml": settings}}))
	cluster.NewVidraResource(t, ns, suite.Manifests(suite.Web(1), suite.Greeting("page", "hello"), suite.Greeting("dropped", "hello")), func(v *v1alpha1.VidraResource) {
		v.Spec.ManifestFrom = []v1alpha1.ManifestSource{{Kind: "ConfigMap", Name: "parts", Key: "a.yaml"}}
	})
	cluster.NewVidraResource(t, ns, suite.Greeting("moves", "hello"), suite.Named(ns+"-other"))
	cluster.AwaitReady(t, ns)
	cluster.AwaitReady(t, ns+"-other")
	page := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "page"}}
	require.NoError(t, cluster.MergePatch(page, `{"data":{"greeting":"edited"}}`))
	suite.Await(t, func(c *assert.CollectT) { require.NotEmpty(c, cluster.GetVidraResource(c, ns).Status.History) })
	unmanaged := &corev1.ConfigMap{ObjectMeta: meta("unmanaged"), Data: map[string]string{"a": "b"}}
	unmanaged.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"unmanaged","namespace":"` + ns + `","labels":{"app":"bad"}},"data":{"a":"b"}}`}
	require.NoError(t, admin.Create(t.Context(), unmanaged))
	file := []insight.File{{Name: "file", Text: documentOf(ns, ns, suite.Manifests(suite.Web(1), settings, suite.Greeting("page", "bye"), suite.Greeting("moves", "hello"))) +
		"---\n" + documentOf(ns+"-other", ns, suite.Greeting("new", "hello"))}}
	objects := []insight.File{{Name: "objects", Text: suite.Greeting("page", "bye")}}
	target := func(name string) insight.Target { return insight.Target{Kind: "configmap", Namespace: ns, Name: name} }
	of := target("page")
	type question func(ctx context.Context, config *rest.Config) (answer any, remarks []string, err error)
	ask := func(ask func(ctx context.Context, c *insight.Client) (any, []string, error)) question {
		return func(ctx context.Context, config *rest.Config) (any, []string, error) {
			c, err := insight.New(config, insight.Options{})
			require.NoError(t, err)
			return ask(ctx, c)
		}
	}
	why := func(name string) question {
		return ask(func(ctx context.Context, c *insight.Client) (any, []string, error) {
			e, err := c.Why(ctx, target(name))
			if err != nil {
				return nil, nil, err
			}
			return e, append(e.Remarks, e.Missing...), nil
		})
	}
	diff := func(q insight.PreviewQuery) question {
		return ask(func(ctx context.Context, c *insight.Client) (any, []string, error) {
			d, err := c.Diff(ctx, q)
			if err != nil {
				return nil, nil, err
			}
			return d, d.Remarks, nil
		})
	}
	forecast := func(q insight.PreviewQuery) question {
		return ask(func(ctx context.Context, c *insight.Client) (any, []string, error) {
			d, err := c.Forecast(ctx, q)
			if err != nil {
				return nil, nil, err
			}
			return d, d.Remarks, nil
		})
	}
	events := func(q insight.EventQuery) question {
		return ask(func(ctx context.Context, c *insight.Client) (any, []string, error) {
			e, err := c.Events(ctx, q)
			if err != nil {
				return nil, nil, err
			}
			names := []string{}
			for _, one := range e.Items {
				names = append(names, one.Name)
			}
			return names, e.Remarks, nil
		})
	}
	history := func(q insight.HistoryQuery) question {
		return ask(func(ctx context.Context, c *insight.Client) (any, []string, error) {
			h, err := c.History(ctx, q)
			if err != nil {
				return nil, nil, err
			}
			return h, h.Remarks, nil
		})
	}
	exported := func(find func(ctx context.Context, c *export.Client) (*export.Selected, error)) question {
		return func(ctx context.Context, config *rest.Config) (any, []string, error) {
			c, err := export.New(config, insight.Options{})
			require.NoError(t, err)
			found, err := find(ctx, c)
			if err != nil {
				return nil, nil, err
			}
			e, err := c.Export(ctx, found, false, nil)
			switch {
			case e == nil:
				return nil, nil, err
			case err != nil: // the command prints the remarks, too
				return nil, nil, fmt.Errorf("%w\n%s", err, strings.Join(e.Remarks, "\n"))
			}
			return e, e.Remarks, nil
		}
	}
	tests := map[string]question{
		"why": why("page"), "why web": ask(func(ctx context.Context, c *insight.Client) (any, []string, error) {
			e, err := c.Why(ctx, insight.Target{Kind: "deployment", Namespace: ns, Name: "web"})
			if err != nil {
				return nil, nil, err
			}
			return e, append(e.Remarks, e.Missing...), nil
		}), "why unmanaged": why("unmanaged"), "why absent": why("absent"),
		"blame": ask(func(ctx context.Context, c *insight.Client) (any, []string, error) {
			b, err := c.Blame(ctx, of, false)
			if err != nil {
				return nil, nil, err
			}
			return b, b.Remarks, nil
		}),
		"keep": ask(func(ctx context.Context, c *insight.Client) (any, []string, error) {
			k, err := c.Keep(ctx, of, nil)
			return k, nil, err
		}),
		"tree": ask(func(ctx context.Context, c *insight.Client) (any, []string, error) {
			tree, err := c.Tree(ctx, insight.TreeQuery{VidraResource: ns})
			if err != nil {
				return nil, nil, err
			}
			return tree, tree.Remarks, nil
		}),
		"status": ask(func(ctx context.Context, c *insight.Client) (any, []string, error) {
			s, err := c.Status(ctx, insight.StatusQuery{Namespace: ns})
			return s, nil, err
		}),
		"revisions": ask(func(ctx context.Context, c *insight.Client) (any, []string, error) {
			r, err := c.Revisions(ctx, ns)
			return r, nil, err
		}),
		"history": history(insight.HistoryQuery{VidraResource: ns}), "history of an object": history(insight.HistoryQuery{Target: &of}),
		"events": events(insight.EventQuery{VidraResource: ns}), "events of an object": events(insight.EventQuery{Target: &of, Namespace: ns}),
		"diff": diff(insight.PreviewQuery{VidraResource: ns}), "diff of files": diff(insight.PreviewQuery{Files: file}),
		"diff of objects": diff(insight.PreviewQuery{Files: objects, Namespace: ns}), "diff of a manifest": diff(insight.PreviewQuery{Files: objects, VidraResource: ns}),
		"forecast": forecast(insight.PreviewQuery{VidraResource: ns}), "forecast of files": forecast(insight.PreviewQuery{Files: file}),
		"export": exported(func(ctx context.Context, c *export.Client) (*export.Selected, error) { return c.VidraResource(ctx, ns) }),
		"export of a namespace": exported(func(ctx context.Context, c *export.Client) (*export.Selected, error) {
			return c.Select(ctx, export.Query{Namespace: ns, Selector: "app=bad"})
		}),
		"migrate": func(ctx context.Context, config *rest.Config) (any, []string, error) {
			c, err := migrate.New(config, insight.Options{})
			require.NoError(t, err)
			tool, err := c.Kubectl(ns, "app=bad", false)
			require.NoError(t, err)
			plan, err := c.Plan(ctx, tool, migrate.Options{Name: "bad-answers-new"})
			if err != nil {
				return nil, nil, err
			}
			text, err := plan.Text()
			return text, plan.Remarks, err
		},
	}
	for name, question := range tests {
		t.Run(name, func(t *testing.T) {
			f := &faulty{}
			config := rest.CopyConfig(cluster.Config)
			config.QPS = -1
			config.Wrap(func(next http.RoundTripper) http.RoundTripper {
				f.next = next
				return f
			})
			ask := func() (answer, remarks string, err error) {
				value, all, err := question(t.Context(), config)
				if err != nil {
					return "", "", err
				}
				document, err := render.Document(render.JSON, value)
				require.NoError(t, err)
				return document, strings.Join(all, "\n"), nil
			}
			want, remarks, refused := ask()
			t.Logf("%d requests, error %v, remarks %q", len(f.seen), refused, remarks)
			for _, key := range f.seen {
				for _, bad := range badAnswers {
					if bad.name == staleGroup && key != "GET /apis" || harmless(name, key, bad) {
						continue
					}
					f.key, f.give = key, bad
					answer, said, err := ask()
					if err != nil {
						said = err.Error()
					}
					named := slices.ContainsFunc(bad.traces, func(text string) bool { return strings.Contains(strings.ToLower(answer+said), text) })
					same := answer == want && said == remarks && err == nil || err != nil && refused != nil && err.Error() == refused.Error()
					if !named && !same {
						assert.Fail(t, fmt.Sprintf("%s: %s: error %v, remarks %q, answer %s", key, bad.name, err, said, answer))
					}
				}
			}
		})
	}
}

// TestTypingErrorBesideStaleGroup: a group without discovery, which may have the kind, hides no proposal.
func TestTypingErrorBesideStaleGroup(t *testing.T) {
	t.Parallel()
	kubeconfig := serveKubeconfig(t, reverseProxy(t, func(r *http.Response) error {
		if r.Request.URL.Path != "/apis" {
			return nil
		}
		_, err := withStaleGroup(r) //nolint:bodyclose // the proxy closes it
		return err
	}), "stale")
	a := vidraAs(t, kubeconfig, "why", "confgmap/page")
	require.Equal(t, 1, a.code, a.stdout)
	require.Contains(t, a.stderr, "stale GroupVersion discovery")
	require.Contains(t, a.stderr, "did you mean configmap?")
}
