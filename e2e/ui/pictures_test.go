package ui

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// picture writes a picture of the page, if VIDRA_PICTURES names a folder: docs has docs/pictures.
func (at *tab) picture(name string) {
	at.t.Helper()
	folder := os.Getenv("VIDRA_PICTURES")
	if folder == "" {
		return
	}
	if !filepath.IsAbs(folder) {
		root, err := testenv.Root()
		require.NoError(at.t, err)
		folder = filepath.Join(root, folder)
	}
	var image []byte
	at.run(cdppage.BringToFront(), chromedp.CaptureScreenshot(&image))
	require.NoError(at.t, os.WriteFile(filepath.Join(folder, name+".png"), image, 0o644)) //nolint:gosec // for docs
}

// TestPictures opens each view in light, dark and at the width of a phone. axe-core finds no violation.
func TestPictures(t *testing.T) {
	others(t)
	p := start(t, kubeconfig)
	live := p.open(t, "vr/shop", desktop)
	live.await("Live")
	editGreeting(t, "bye")
	live.await("Reverted by Vidra", "bye")
	if !strings.Contains(live.text(t), "stood for") { // the page was opened while the objects were created
		editGreeting(t, "bye")
		live.await("stood for")
	}
	suite.Await(t, func(c *assert.CollectT) { // all pictures show the state after the revert
		v := &v1alpha1.VidraResource{}
		require.NoError(c, admin.Get(t.Context(), types.NamespacedName{Name: "shop"}, v))
		require.True(c, slices.ContainsFunc(v.Status.History, func(e v1alpha1.HistoryEntry) bool { return strings.Contains(e.Message, "bye") }))
	})
	manifest := filepath.Join(t.TempDir(), "shop.yaml")
	require.NoError(t, os.WriteFile(manifest, []byte(forecastFile), 0o600))
	for _, path := range []struct{ name, path, awaits string }{
		{"overview", "", "KindUnavailable"},
		{"vidraresource", "vr/shop", "Reverted by Vidra"},
		{"object", "object?kind=configmap&namespace=shop&name=settings", "To keep a change"},
		{"forecast", "forecast", "Drop a YAML file"},
	} {
		for kind, v := range map[string]view{"": {1280, 1200, false}, "-dark": {1280, 1200, true}, "-phone": phone} {
			at := p.open(t, path.path, v)
			at.await(path.awaits)
			if path.name == "forecast" {
				at.run(chromedp.SetUploadFiles("#file", []string{manifest}, chromedp.ByQuery))
				at.await("What an apply would do")
			}
			at.requireAccessible(path.name + kind)
			at.picture(path.name + kind)
			require.LessOrEqual(t, eval[int](t, at, `document.documentElement.scrollWidth`), int(v.width), "%s%s: no sideways scroll", path.name, kind)
		}
	}
}

// forecastFile is a manifest with an object that another program scales, one that changes and one that is new.
const forecastFile = `apiVersion: infrahub.operators.com/v1alpha1
kind: VidraResource
metadata:
  name: shop
spec:
  destination: {namespace: shop}
  manifest: |
    apiVersion: v1
    kind: ConfigMap
    metadata:
      name: settings
    data:
      colour: green
      greeting: hello
    ---
    apiVersion: apps/v1
    kind: Deployment
    metadata:
      name: web
    spec:
      replicas: 2
      selector:
        matchLabels: {app: web}
      template:
        metadata:
          labels: {app: web}
        spec:
          containers:
          - name: web
            image: registry.example/web:1
    ---
    apiVersion: autoscaling/v2
    kind: HorizontalPodAutoscaler
    metadata:
      name: web
    spec:
      scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
      minReplicas: 2
      maxReplicas: 5
      metrics:
      - type: Resource
        resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}
`
