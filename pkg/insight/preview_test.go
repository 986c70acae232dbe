package insight

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
