package insight

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
)

// silent finds no kind, as the API server does not answer.
type silent struct{ meta.RESTMapper }

func (silent) RESTMapping(schema.GroupKind, ...string) (*meta.RESTMapping, error) {
	return nil, errors.New("the API server does not answer")
}

// TestTreeOfAVersionThatIsGone: an object is read in a version that is served. Only a kind without one is unserved.
func TestTreeOfAVersionThatIsGone(t *testing.T) {
	t.Parallel()
	v2 := schema.GroupVersion{Group: "example.com", Version: "v2"}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{v2})
	mapper.Add(v2.WithKind("Thing"), meta.RESTScopeNamespace)
	thing := &unstructured.Unstructured{}
	thing.SetGroupVersionKind(v2.WithKind("Thing"))
	thing.SetNamespace("shop")
	thing.SetName("door")
	for name, tc := range map[string]struct {
		mapper                meta.RESTMapper
		kind, health, message string
	}{
		"Version gone": {mapper, "Thing", "Current", ""},
		"Kind gone":    {mapper, "Other", "Unknown", "the cluster does not serve its kind"},
		"No answer":    {silent{}, "Thing", "Unknown", "the API server does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reader := &treeReader{client: &Client{mapper: tc.mapper, dynamic: dynamicfake.NewSimpleDynamicClient(runtime.NewScheme(), thing)}}
			b := &Branch{APIVersion: "example.com/v1", Kind: tc.kind, Namespace: "shop", Name: "door"}
			reader.read(t.Context(), b)
			require.Equal(t, tc.health, b.Health)
			require.Equal(t, tc.message, b.Message)
		})
	}
}
