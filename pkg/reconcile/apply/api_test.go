package apply

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// TestOwnersInAnUnservedVersion: each write gives the owners of an object in a version that is not served any more the version of the
// request, once for each version, and is then sent again.
func TestOwnersInAnUnservedVersion(t *testing.T) {
	t.Parallel()
	things := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}
	unserved := func(version string) answer {
		return answer{err: errors.New("request to convert CR to an invalid group/version: example.com/" + version)}
	}
	former := answer{live: &unstructured.Unstructured{Object: map[string]any{}}}
	former.live.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: "person", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "example.com/v1beta1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:size":{}}}`),
	}})
	live := answer{live: &unstructured.Unstructured{Object: map[string]any{}}}
	refused := answer{err: apierrors.NewForbidden(things.GroupResource(), "thing", errors.New("refused"))}
	writes := map[string]func(a *Applier, key trigger.ObjectKey) error{
		"application/apply-patch+yaml": func(a *Applier, key trigger.ObjectKey) error {
			_, err := a.ApplyBody(t.Context(), key, nil, true)
			return err
		},
		"application/merge-patch+json": func(a *Applier, key trigger.ObjectKey) error {
			_, err := a.EditMetadata(t.Context(), key, live.live, map[string]any{})
			return err
		},
		"application/json-patch+json": func(a *Applier, key trigger.ObjectKey) error {
			_, err := a.calls(key).patch(t.Context(), nil)
			return err
		},
	}
	for name, tc := range map[string]struct {
		reason  string
		answers []answer
		// calls are the calls in their order, with W for the write.
		calls string
		fails bool
	}{
		"served":      {"Nothing else is sent.", []answer{live}, "W", false},
		"refused":     {"Another refusal is no reason to read the object.", []answer{refused}, "W", true},
		"converted":   {"It is sent again.", []answer{unserved("v1beta1"), former, live, live}, "W get application/json-patch+json W", false},
		"two":         {"A second version is converted, too.", []answer{unserved("v1beta1"), former, live, unserved("v1alpha1"), former, live}, "W get application/json-patch+json W get W", false},
		"still":       {"It ends if that does not help.", []answer{unserved("v1beta1"), former, live, unserved("v1beta1")}, "W get application/json-patch+json W", true},
		"unread":      {"It ends if the object cannot be read.", []answer{unserved("v1beta1"), refused}, "W get", true},
		"unconverted": {"It ends if the owners cannot be converted: that write converts nothing itself.", []answer{unserved("v1beta1"), former, unserved("v1alpha1")}, "W get application/json-patch+json", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for kind, write := range writes {
				client := &requests{script: script{answers: tc.answers}}
				a := &Applier{Client: client, Settings: &plan.Settings{Claimant: owners.Claimant{Manager: ourManager}}}
				err := write(a, trigger.ObjectKey{GVR: things, Name: "thing"})
				require.Equal(t, strings.ReplaceAll(tc.calls, "W", kind), strings.Join(client.calls, " "), tc.reason)
				require.Equal(t, tc.fails, err != nil, "%s: %v", tc.reason, err)
			}
		})
	}
}

// requests is a client with given answers. It records the requests.
type requests struct {
	dynamic.Interface
	dynamic.NamespaceableResourceInterface
	script
}

func (r *requests) Resource(schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return r
}

func (r *requests) Namespace(string) dynamic.ResourceInterface { return r }

func (r *requests) Get(context.Context, string, metav1.GetOptions, ...string) (*unstructured.Unstructured, error) {
	return r.next("get")
}

func (r *requests) Patch(_ context.Context, _ string, kind types.PatchType, _ []byte, _ metav1.PatchOptions, _ ...string) (*unstructured.Unstructured, error) {
	return r.next(string(kind))
}
