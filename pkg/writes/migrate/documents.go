package migrate

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/source"
)

// parts reads the parts of a manifest; nil if a part is in a source.
func (c *Client) parts(ctx context.Context, vr *v1alpha1.VidraResource) ([]desired.Part, error) {
	if source.HasArtifacts(vr) {
		return nil, nil
	}
	return desired.ReadParts(ctx, source.Objects(nil), c.objects.Dynamic, vr, nil)
}

// fileOf returns a manifest with objects.
func fileOf(name string, objects []*unstructured.Unstructured) (insight.File, error) {
	f := insight.File{Name: name}
	for i, o := range objects {
		text, err := yaml.Marshal(o.Object)
		if err != nil {
			return f, err
		}
		if i > 0 {
			f.Text += "---\n"
		}
		f.Text += string(text)
	}
	return f, nil
}
