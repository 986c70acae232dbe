package events

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// ObjectsAnnotation is the annotation of a Kubernetes Event about several objects that names
// them, as a JSON list of references. related of an Event holds only one object. See
// [ObjectsOf].
const ObjectsAnnotation = "vidraresource.infrahub.operators.com/objects"

const (
	// maxObjects is how many objects the annotation names at most.
	maxObjects = 100
	// maxObjectsBytes is how many bytes the annotation has at most.
	maxObjectsBytes = 16 << 10
)

// Object is one of the objects of an Event that is about several.
type Object struct {
	Reference corev1.ObjectReference
	// Action is the write of the reconcile; empty if the reason implies it.
	Action Action
	// Note is the addition of the Event to the name of a removed object, or empty.
	Note string

	// name is how the note of the Event names it.
	name string
}

// ObjectsOf returns the objects that the annotation of a Kubernetes Event names; nil if such an
// annotation is absent, or malformed, as another program may have written it.
func ObjectsOf(annotations map[string]string) []corev1.ObjectReference {
	var named []corev1.ObjectReference
	if json.Unmarshal([]byte(annotations[ObjectsAnnotation]), &named) != nil {
		return nil
	}
	return named
}

// Annotations returns the annotations of the Kubernetes Event: the objects that it is about, as
// many as fit; nil if it is about at most one, which is related.
func (e Event) Annotations() map[string]string {
	if len(e.Objects) < 2 {
		return nil
	}
	texts := make([]string, 0, min(len(e.Objects), maxObjects))
	room := maxObjectsBytes
	for _, o := range e.Objects {
		text, err := json.Marshal(corev1.ObjectReference{
			APIVersion: o.Reference.APIVersion, Kind: o.Reference.Kind, Namespace: o.Reference.Namespace, Name: o.Reference.Name,
		})
		if room -= len(text) + 1; err != nil || room < len("[]") || len(texts) == maxObjects {
			break
		}
		texts = append(texts, string(text))
	}
	return map[string]string{ObjectsAnnotation: "[" + strings.Join(texts, ",") + "]"}
}

// about adds the objects of changes with some actions to an Event. If there is one, the Event is
// related to it.
func (e Event) about(changes []Change, some ...Action) Event {
	for _, action := range some {
		for _, change := range changes {
			if change.Action == action {
				o := Object{Reference: change.Object, Action: action, name: change.name()}
				if action == Pruned || action == Orphaned {
					o.Note = change.Note
				}
				e.Objects = append(e.Objects, o)
			}
		}
	}
	if len(e.Objects) == 1 {
		related := e.Objects[0].Reference
		e.Related = &related
	}
	return e
}

// names returns the names of the objects that a reconcile wrote to.
func (e Event) names(done Action) []string {
	var names []string
	for _, o := range e.Objects {
		if o.Action == done {
			name := o.name
			if o.Note != "" {
				name += " (" + o.Note + ")"
			}
			names = append(names, name)
		}
	}
	return names
}

// objectsVariant returns a variant that is another one for other objects or other additions to their names, however many of
// them the note names.
func (e Event) objectsVariant() string {
	var texts []string
	for _, o := range e.Objects {
		texts = append(texts, string(o.Action), o.Reference.APIVersion, o.name, o.Note)
	}
	return variantOf(texts...)
}

// variantOf returns a short variant that is another one for other texts.
func variantOf(texts ...string) string {
	hash := fnv.New128a()
	for _, text := range texts {
		_, _ = fmt.Fprintf(hash, "%q", text) // the hash returns no error
	}
	return fmt.Sprintf("%x", hash.Sum(nil))
}

// list returns as many names as fit into room bytes, and the number of the others.
func list(names []string, room int) string {
	text := ""
	for i, name := range names {
		if i > 0 {
			name = ", " + name
		}
		rest := ""
		if i < len(names)-1 {
			rest = " " + more(len(names)-i-1)
		}
		if len(text)+len(name)+len(rest) > room {
			if text == "" {
				return more(len(names))
			}
			return text + " " + more(len(names)-i)
		}
		text += name
	}
	return text
}
