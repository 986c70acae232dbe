package remote

import (
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// resourcesOfV1 is the discovery document of a hostile API server.
const resourcesOfV1 = `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"configmaps","singularName":"",` +
	`"namespaced":true,"kind":"ConfigMap","verbs":["create","delete","get","list","patch","update","watch"]}]}`

// hostileServer is an API server that answers /version, and all else as answer does.
func hostileServer(t *testing.T, answer http.HandlerFunc) destination {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/version" {
			_, _ = io.WriteString(w, `{"major":"1","minor":"36"}`)
			return
		}
		answer(w, r)
	}))
	server.EnableHTTP2, server.Config.ErrorLog = true, log.New(io.Discard, "", 0)
	server.StartTLS()
	d := destination{name: unique(t), config: &rest.Config{Host: server.URL, BearerToken: "hostile"}}
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		deleteKubeconfig(t, d.name)
	})
	d.config.CAData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	setKubeconfig(t, d.name, kubeconfig(t, d.config))
	return d
}

// repeat writes a text until the other side has enough, and counts the bytes.
func repeat(w io.Writer, text string, sent *atomic.Int64) {
	text = strings.Repeat(text, 16<<10/len(text))
	for {
		n, err := io.WriteString(w, text)
		sent.Add(int64(n))
		if err != nil {
			return
		}
	}
}

// heapInUse is how much memory the operator uses for objects.
func heapInUse(t *testing.T) float64 {
	t.Helper()
	bytes, found := suite.Metrics(t, operator)["go_memstats_heap_inuse_bytes"]
	require.True(t, found)
	return bytes
}

// TestHostileClusters has three other clusters send answers without end: of discovery, to
// an apply, and in an event of a watch. Each is DestinationUnreachable with the reason, and is
// left alone; memory stays bounded, and objects here are healed meanwhile.
func TestHostileClusters(t *testing.T) {
	const (
		heapMost = 512 << 20
		sentMost = 256 << 20
		during   = 15 * time.Second
		alone    = 9 // heals before that
	)
	var sent atomic.Int64
	clusters := map[string]http.HandlerFunc{
		"discovery": func(w http.ResponseWriter, _ *http.Request) { repeat(w, `{"a":{}},`, &sent) },
		"apply": func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == "/api/v1":
				_, _ = io.WriteString(w, resourcesOfV1)
			case r.Method == http.MethodPatch:
				repeat(w, "x", &sent)
			default:
				w.WriteHeader(http.StatusNotFound)
				_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"details":{"name":"apply","kind":"configmaps"}}`)
			}
		},
		"watch": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/api/v1" {
				_, _ = io.WriteString(w, resourcesOfV1)
				return
			}
			repeat(w, `{"type":"ADDED","object":{"a":"`, &sent)
		},
	}
	home := unique(t)
	here.MakeNamespace(t, home)
	newVidraResource(t, "", home, greeting("page", "hello"))
	awaitReady(t, home)
	edits := 0
	heal := func() time.Duration {
		edits++
		edited := time.Now()
		here.edit(t, configMap(home, "page"), `{"data":{"greeting":"changed %d"}}`, edits)
		here.awaitSays(t, home, "page", "hello")
		return time.Since(edited)
	}
	var before []time.Duration
	for range alone {
		before = append(before, heal())
	}
	slices.Sort(before)
	var names []string
	for name, answer := range clusters {
		d := hostileServer(t, answer)
		v := newVidraResource(t, d.url(), "default", greeting(name, "hello"), named(d.name), func(v *v1alpha1.VidraResource) {
			v.Spec.DeletionPolicy = v1alpha1.DeletionOrphan // nothing there can be removed
		})
		names = append(names, v.Name)
	}
	var meanwhile []time.Duration
	peak := 0.0
	for began := time.Now(); time.Since(began) < during; {
		meanwhile = append(meanwhile, heal())
		peak = max(peak, heapInUse(t))
		require.Less(t, peak, float64(heapMost))
	}
	slices.Sort(meanwhile)
	median := meanwhile[len(meanwhile)/2]
	t.Logf("%d edits healed meanwhile, median %s, before %s; heap in use at most %.0f MiB; %d MiB sent", len(meanwhile), median, before[alone/2], peak/(1<<20), sent.Load()>>20)
	require.Less(t, median, 20*before[alone/2]+time.Second)
	for _, name := range names {
		awaitUnreachable(t, name, fmt.Sprintf("it sends answers that need more than %d MiB of memory", 96))
	}
	require.Less(t, sent.Load(), int64(sentMost), "each is left alone once it has exceeded the limit")
}
