package migrate

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/vidra-operator/vidra/pkg/insight"
)

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
