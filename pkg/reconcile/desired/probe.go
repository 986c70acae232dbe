package desired

import (
	"crypto/sha256"
	"encoding/hex"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// Probe returns the object under an unused name, for a dry run: it asks whether the API server accepts as a new object
// the fields that it refused as a change. This is the only mark of an immutable field: any other invalid object gets the same answer.
func (d *Object) Probe() *unstructured.Unstructured {
	probe := d.Unstructured()
	sum := sha256.Sum256([]byte(d.ID.Name))
	probe.SetName("vidra-probe-" + hex.EncodeToString(sum[:4]))
	if d.ID.GroupKind == (schema.GroupKind{Kind: "Service"}) { // the present one holds them
		for _, field := range []string{"clusterIP", "clusterIPs", "healthCheckNodePort"} {
			unstructured.RemoveNestedField(probe.Object, "spec", field)
		}
		withoutNodePorts(probe)
	}
	if d.ID.GroupKind == object.CRDKind { // its name has that of its resource
		group, _, _ := unstructured.NestedString(probe.Object, "spec", "group")
		_ = unstructured.SetNestedField(probe.Object, probe.GetName(), "spec", "names", "plural") // names is a map, or the API server refuses it
		probe.SetName(probe.GetName() + "." + group)
	}
	return probe
}

// withoutNodePorts removes the ports of the nodes from a Service.
func withoutNodePorts(service *unstructured.Unstructured) {
	ports, _, _ := unstructured.NestedSlice(service.Object, "spec", "ports")
	for _, port := range ports {
		if fields, ok := port.(map[string]any); ok {
			delete(fields, "nodePort")
		}
	}
	if len(ports) > 0 {
		_ = unstructured.SetNestedSlice(service.Object, ports, "spec", "ports") // it was a list before
	}
}
