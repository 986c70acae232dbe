package insight

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestNewVidraResource: objects of files are compared as the manifest of a VidraResource whose name no other one has, and the answer calls it new.
func TestNewVidraResource(t *testing.T) {
	const manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: page}\n"
	tests := map[string]struct {
		reason   string
		readable readable
		want     string
	}{
		"Free":      {reason: "the usual name", want: "new"},
		"Taken":     {reason: "its objects are not those of the new one", readable: readable{"new": {}}, want: "New"},
		"Forbidden": {reason: "it may exist", readable: readable{"new": nil}, want: "New"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := &Client{resources: tt.readable}
			p, err := c.preview(t.Context(), PreviewQuery{Files: []File{{Name: "objects.yaml", Text: manifest}}})
			require.NoError(t, err)
			require.Len(t, p.wanted, 1)
			require.Equal(t, tt.want, p.wanted[0].Name, tt.reason)
			d := differOf()
			d.runner.VR, d.isNew = p.wanted[0], p.isNew
			d.runner.VR.DeletionTimestamp = new(metav1.Now()) // its manifest is not read
			diff, err := d.run(t.Context())
			require.NoError(t, err)
			require.Equal(t, "new", diff.VidraResource)
		})
	}
}

// TestPartsInFiles: the parts of a manifest are read from the files as an apply of the files to the namespace of the user writes them.
func TestPartsInFiles(t *testing.T) {
	text := map[string]string{
		"ConfigMap": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: parts}\ndata: {page: text}\nbinaryData: {binary: YmluYXJ5}\n",
		"Secret":    "apiVersion: v1\nkind: Secret\nmetadata: {name: parts}\ndata: {page: dGV4dA==}\n",
	}
	cases := map[string]struct{ kind, key, namespace, want string }{
		"ConfigMap": {"ConfigMap", "page", "shop", "text"}, "Binary": {"ConfigMap", "binary", "shop", "binary"},
		"Secret": {"Secret", "page", "shop", "text"}, "Elsewhere": {"ConfigMap", "page", "bank", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			vr := &v1alpha1.VidraResource{Spec: v1alpha1.VidraResourceSpec{Destination: v1alpha1.Destination{Namespace: "shop"}}}
			p, err := (&Client{resources: readable{}}).preview(t.Context(), PreviewQuery{Files: []File{{Name: "parts.yaml", Text: text[tc.kind]}}, Namespace: tc.namespace})
			require.NoError(t, err)
			got, found := p.beside(vr, v1alpha1.ManifestSource{Kind: tc.kind, Name: "parts", Key: tc.key})
			require.Equal(t, tc.want, got)
			require.Equal(t, tc.want != "", found)
		})
	}
}
