package main

import (
	"flag"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// batch is many ConfigMaps in sets of the same size: in a VidraResource each, on Vidra's side.
type batch struct {
	// round distinguishes the objects from those of other batches.
	round int
	// sets is how many sets there are, of perSet objects each.
	sets, perSet int
	// kinds is how many kinds the objects are of: object i is of kind i. They are ConfigMaps if it is 0.
	kinds int
	// server is the cluster of the objects and namespace their namespace, if they are not those of Vidra's side.
	server, namespace string
	// marked is whether the objects have the label and the annotation with which Vidra marks what it applies.
	marked bool
	// value is what the first object of each set has instead of its number, if it is not empty.
	value string
}

// flags adds the flags by which a child gets the batch.
func (b *batch) flags(fs *flag.FlagSet) {
	fs.IntVar(&b.round, "round", 0, "The number of the round.")
	fs.IntVar(&b.sets, "sets", 0, "How many sets there are.")
	fs.IntVar(&b.perSet, "per-set", 0, "How many objects are in each.")
	fs.IntVar(&b.kinds, "kinds", 0, "How many kinds the objects are of; 0 for ConfigMaps.")
	fs.BoolVar(&b.marked, "marked", false, "Whether they have the marks of Vidra.")
	fs.StringVar(&b.value, "value", "", "What is changed in the first object of each.")
}

// args are the arguments for flags.
func (b batch) args() []string {
	return []string{
		"-round", strconv.Itoa(b.round), "-sets", strconv.Itoa(b.sets), "-per-set", strconv.Itoa(b.perSet),
		"-kinds", strconv.Itoa(b.kinds), "-marked=" + strconv.FormatBool(b.marked), "-value", b.value,
	}
}

// objects is how many objects there are.
func (b batch) objects() int { return b.sets * b.perSet }

// name is the name of an object.
func (b batch) name(i int) string { return fmt.Sprintf("settings-%d-%d", b.round, i) }

// number is what an object has as its number.
func (b batch) number(i int) string {
	if b.value != "" && i%b.perSet == 0 {
		return b.value
	}
	return strconv.Itoa(i)
}

// gvr is the kind of an object.
func (b batch) gvr(i int) schema.GroupVersionResource {
	if b.kinds == 0 {
		return configMap.gvr
	}
	return thingGVR(i % b.kinds)
}

// text is the manifest of an object.
func (b batch) text(namespace string, i int) string {
	kind, field := "ConfigMap", "data"
	if b.kinds > 0 {
		kind, field = "Thing", "spec"
	}
	marks := ""
	if b.marked {
		owner := b.resource(i / b.perSet)
		marks = fmt.Sprintf("  labels: {%s: %s}\n  annotations: {%s: %s}\n",
			v1alpha1.ManagedByLabel, v1alpha1.ManagedByValue, v1alpha1.Installation("").OwnerAnnotationKey(owner), owner)
	}
	return fmt.Sprintf(`apiVersion: %s
kind: %s
metadata:
  name: %s
  namespace: %s
%s%s:
  number: %q
`, b.gvr(i).GroupVersion(), kind, b.name(i), namespace, marks, field, b.number(i))
}

// set is the manifest of the objects of a set.
func (b batch) set(namespace string, number int) string {
	var docs []string
	for k := range b.perSet {
		docs = append(docs, b.text(namespace, number*b.perSet+k))
	}
	return strings.Join(docs, "---\n")
}

// resource is the name of the VidraResource of a set.
func (b batch) resource(set int) string { return fmt.Sprintf("bench-%d-%d", b.round, set) }
