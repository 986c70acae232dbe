package desired

import (
	"crypto/sha256"
	"encoding/hex"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Probe returns the object under a name that no object has, for a dry run: it asks whether the API server accepts as a new object
// what it refused as a change. There is no other mark of a field that cannot change: the answers are those to any invalid object.
func (o *Object) Probe() *unstructured.Unstructured {
	probe := o.Unstructured()
	sum := sha256.Sum256([]byte(o.ID.Name))
	probe.SetName("vidra-probe-" + hex.EncodeToString(sum[:4]))
	if o.ID.GroupKind == (schema.GroupKind{Kind: "Service"}) { // the present one holds them
		for _, field := range []string{"clusterIP", "clusterIPs", "healthCheckNodePort"} {
			unstructured.RemoveNestedField(probe.Object, "spec", field)
		}
		withoutNodePorts(probe)
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
