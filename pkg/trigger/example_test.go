package trigger_test

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// A watch gets its callbacks from the factory. They put the owner of an object into the
// work queue when a field that the owner applied was changed, and only then.
func Example() {
	index := trigger.NewIndex()
	factory := trigger.NewFactory(index)

	// In an operator, controller-runtime starts the source with the queue of a controller.
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	if err := factory.Source().Start(context.Background(), queue); err != nil {
		panic(err)
	}

	// The owner "shop" applied the ConfigMap, and expects the digest of the fields that it owns.
	owner, manager := trigger.Owner{Name: "shop"}, "vidra/shop"
	gvr := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	key := trigger.ObjectKey{GVR: gvr, Namespace: "web", Name: "settings"}
	applied := settings("1", "blue", manager, metav1.ManagedFieldsOperationApply)
	digest, _ := ownership.Of(applied, manager)
	index.Load(owner, map[trigger.ObjectKey]trigger.Applied{key: {Manager: manager, Digest: digest}})

	// The informer passes every object through the transform, and the result to the handler.
	keep, handler := factory.TransformFor("", gvr), factory.HandlerFor("", gvr)
	kept := func(u *unstructured.Unstructured) any {
		snapshot, err := keep(u)
		if err != nil {
			panic(err)
		}
		return snapshot
	}

	first := kept(applied)
	handler.OnAdd(first, true)
	fmt.Println("as applied:", queue.Len(), "in the queue")

	// Another writer sets a field that nobody applies.
	foreign := settings("2", "blue", manager, metav1.ManagedFieldsOperationApply)
	foreign.SetLabels(map[string]string{"team": "web"})
	second := kept(foreign)
	handler.OnUpdate(first, second)
	fmt.Println("a field of others:", queue.Len(), "in the queue")

	// kubectl changes the field that the owner applies, and owns it from then on.
	edited := settings("3", "red", "kubectl-edit", metav1.ManagedFieldsOperationUpdate)
	handler.OnUpdate(second, kept(edited))
	fmt.Println("a field of the owner:", queue.Len(), "in the queue")

	request, _ := queue.Get()
	defer queue.Done(request)
	for key, cause := range factory.TakeCauses(request.NamespacedName).Objects {
		for _, change := range ownership.Drift(cause.Found, applied, manager, ownership.Disclose(false, ownership.SensitivityOf(cause.Found, applied), false)) {
			fmt.Printf("%s reverts %s of %s/%s to %s; %s had set it to %s\n",
				request.Name, change.Path, key.Namespace, key.Name, change.Restored, change.Manager, change.Found)
		}
	}
	// Output:
	// as applied: 0 in the queue
	// a field of others: 0 in the queue
	// a field of the owner: 1 in the queue
	// shop reverts data.color of web/settings to "blue"; kubectl-edit had set it to "red"
}

// settings is a ConfigMap as the API server returns it: in a version, with a value that a
// field manager owns.
func settings(version, color, manager string, operation metav1.ManagedFieldsOperationType) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1",
		"kind":       "ConfigMap",
		"metadata": map[string]any{
			"namespace": "web", "name": "settings", "resourceVersion": version,
			"managedFields": []any{map[string]any{
				"manager": manager, "operation": string(operation), "fieldsType": "FieldsV1",
				"fieldsV1": map[string]any{"f:data": map[string]any{"f:color": map[string]any{}}},
			}},
		},
		"data": map[string]any{"color": color},
	}}
}
