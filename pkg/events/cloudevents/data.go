package cloudevents

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strings"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	corev1 "k8s.io/api/core/v1"

	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

const (
	// typePrefix begins the type of every CloudEvent: the reversed API group, the kind, and
	// the version of Data. The reason follows.
	typePrefix = "com.operators.infrahub.vidraresource.v1."
	// sourcePrefix begins the source of every CloudEvent. The name of the VidraResource
	// follows.
	sourcePrefix = "/apis/infrahub.operators.com/v1alpha1/vidraresources/"
	// maxFieldBytes limits the fields, in bytes before they are encoded as JSON, so that a
	// CloudEvent is below the 64 KiB that every intermediary must forward (CloudEvents 1.0,
	// "Size Limits").
	maxFieldBytes = 16 << 10
	// maxObjectBytes limits the objects of one CloudEvent in the same way.
	maxObjectBytes = 24 << 10
)

// Data is the data of a CloudEvent, as JSON. New members may be added; removing a member or
// changing its meaning requires a new version in typePrefix.
type Data struct {
	// Reason, Type and Action have the values of the Kubernetes Event; see package events.
	Reason string `json:"reason"`
	Type   string `json:"type"`
	Action string `json:"action"`
	// Note is the note of the Kubernetes Event, of up to events.MaxNote bytes.
	Note string `json:"note"`
	// VidraResource is the VidraResource of the transition.
	VidraResource DataOwner `json:"vidraResource"`
	// Object is the object of the transition; absent if it is the VidraResource.
	Object *DataObject `json:"object,omitempty"`
	// Objects are the objects of a transition that may be about several. Where they exceed one
	// CloudEvent, further ones have the others.
	Objects []DataObject `json:"objects,omitempty"`
	// Fields are the fields that differ or were reverted.
	Fields []DataField `json:"fields,omitempty"`
	// FieldsOmitted is the number of further fields, which would make the CloudEvent too
	// long.
	FieldsOmitted int `json:"fieldsOmitted,omitempty"`
}

// DataOwner names a VidraResource.
type DataOwner struct {
	Name string `json:"name"`
	UID  string `json:"uid,omitempty"`
}

// DataObject names an object that a VidraResource manages.
type DataObject struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	UID        string `json:"uid,omitempty"`
	// Action is the write of Vidra to it, in Objects of Applied and Pruned: an events.Action.
	Action string `json:"action,omitempty"`
}

// dataObject returns an object that a VidraResource manages.
func dataObject(ref corev1.ObjectReference, action events.Action) DataObject {
	return DataObject{
		APIVersion: ref.APIVersion, Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name, UID: string(ref.UID), Action: string(action),
	}
}

// DataField is an [ownership.Change]. Found and Restored are JSON, truncated to 80 characters.
// They are absent where there was or should be no value, or where Withheld is true.
type DataField struct {
	Path        string     `json:"path"`
	Pointer     string     `json:"pointer,omitempty"`
	Kind        string     `json:"kind,omitempty"`
	Found       string     `json:"found,omitempty"`
	Restored    string     `json:"restored,omitempty"`
	User        string     `json:"user,omitempty"`
	Manager     string     `json:"manager,omitempty"`
	Operation   string     `json:"operation,omitempty"`
	Subresource string     `json:"subresource,omitempty"`
	Time        *time.Time `json:"time,omitempty"`
	Withheld    bool       `json:"withheld,omitempty"`
}

// split returns an Event, or several with the same note if its objects exceed one CloudEvent.
func split(e events.Event) []events.Event {
	size := 0
	for i, o := range e.Objects {
		const members = 120 // their names, and the uid
		size += members + len(o.Reference.APIVersion) + len(o.Reference.Kind) + len(o.Reference.Namespace) + len(o.Reference.Name)
		if i > 0 && size > maxObjectBytes {
			first, rest := e, e
			first.Objects, rest.Objects = e.Objects[:i:i], e.Objects[i:]
			return append([]events.Event{first}, split(rest)...)
		}
	}
	return []events.Event{e}
}

// encode returns the CloudEvent of an Event that regards a VidraResource.
func encode(e events.Event, id string, at time.Time) (event.Event, error) {
	data := Data{
		Reason: e.Reason, Type: e.Type, Action: e.Action, Note: display.Truncate(e.Note, events.MaxNote),
		VidraResource: DataOwner{Name: e.Regarding.Name, UID: string(e.Regarding.UID)},
	}
	subject := e.Regarding
	if e.Related != nil {
		subject = *e.Related
		object := dataObject(subject, "")
		data.Object = &object
	}
	for _, o := range e.Objects {
		data.Objects = append(data.Objects, dataObject(o.Reference, o.Action))
	}
	data.Fields, data.FieldsOmitted = dataFields(e.Fields)
	encoded := bytes.Buffer{}
	encoder := json.NewEncoder(&encoded)
	encoder.SetEscapeHTML(false) // notes are not shown as HTML
	if err := encoder.Encode(data); err != nil {
		return event.Event{}, err
	}
	ce := event.New()
	ce.SetID(id)
	ce.SetTime(at.UTC())
	ce.SetType(typePrefix + e.Reason)
	ce.SetSource(sourcePrefix + url.PathEscape(e.Regarding.Name))
	ce.SetSubject(objectPath(subject))
	ce.SetDataContentType(event.ApplicationJSON)
	ce.DataEncoded = encoded.Bytes()
	return ce, ce.Validate()
}

// objectPath returns apiVersion/kind/namespace/name of an object, with the namespace if it has
// one, and each escaped.
func objectPath(ref corev1.ObjectReference) string {
	parts := append(strings.Split(ref.APIVersion, "/"), ref.Kind)
	if ref.Namespace != "" {
		parts = append(parts, ref.Namespace)
	}
	parts = append(parts, ref.Name)
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return strings.Join(parts, "/")
}

// dataFields returns as many of the changes as fit, and the number of the others.
func dataFields(changes []ownership.Change) ([]DataField, int) {
	var fields []DataField
	size := 0
	for _, c := range changes {
		f := DataField{
			Path: c.Path, Pointer: c.Pointer, Kind: string(c.Kind), Found: c.Found, Restored: c.Restored,
			User: c.User, Manager: c.Manager, Operation: c.Operation, Subresource: c.Subresource, Withheld: c.Withheld,
		}
		if c.Withheld {
			f.Found, f.Restored = "", ""
		}
		if !c.Time.IsZero() {
			at := c.Time.UTC()
			f.Time = &at
		}
		// The names of the members count, too.
		const members = 150
		size += members + len(f.Path) + len(f.Pointer) + len(f.Found) + len(f.Restored) + len(f.User) + len(f.Manager)
		if size > maxFieldBytes {
			return fields, len(changes) - len(fields)
		}
		fields = append(fields, f)
	}
	return fields, 0
}
