package insight

import (
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// Target is the object that a question is about.
type Target struct {
	// Kind is a resource, a short name or a kind, with or without its group, as kubectl takes it: deployment, deploy, Deployment.apps.
	Kind string
	// Namespace of the object; ignored for kinds without one.
	Namespace string
	Name      string
}

// StatusQuery selects the VidraResources of [Client.Status]. The zero value selects all.
type StatusQuery struct {
	// Name of the only VidraResource.
	Name string
	// Selector selects by labels. It excludes Name.
	Selector string
	// Namespace selects VidraResources with an object in it.
	Namespace string
}

// Status reports whether VidraResources are in order.
type Status struct {
	InOrder        bool     `json:"inOrder"`
	VidraResources []Report `json:"vidraResources"`
}

// Report is the state of a VidraResource.
type Report struct {
	Name string `json:"name"`
	// InOrder reports that nothing is wrong; Why is what is.
	InOrder bool     `json:"inOrder"`
	Why     []string `json:"why,omitempty"`
	// Ready is the reason of the condition Ready.
	Ready      string                `json:"ready"`
	Objects    map[string]int        `json:"objects"`
	Conditions []metav1.Condition    `json:"conditions"`
	Problems   []v1alpha1.Problem    `json:"problems,omitempty"`
	Drift      *v1alpha1.DriftStatus `json:"drift,omitempty"`
	Shards     []string              `json:"shards,omitempty"`

	// VidraResource is the whole object.
	VidraResource *v1alpha1.VidraResource `json:"-"`
}

// TreeQuery selects the objects of [Client.Tree].
type TreeQuery struct {
	// VidraResource is its name.
	VidraResource string
	// Namespace of the objects; empty for all.
	Namespace string
}

// Tree is the inventory of a VidraResource, with what its objects own.
type Tree struct {
	Objects []*Branch `json:"objects"`
	Name    string    `json:"vidraResource"`

	// Root is the report of the VidraResource.
	Root Report `json:"-"`
	// Remarks are what is not shown, and why.
	Remarks []string `json:"-"`
}

// Branch is an object with those that it owns.
type Branch struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	// State is that of the inventory; none for owned objects.
	State string `json:"state,omitempty"`
	// Health is what kstatus makes of the object; Message is why it is not Current.
	Health  string       `json:"health,omitempty"`
	Message string       `json:"message,omitempty"`
	Created *metav1.Time `json:"created,omitempty"`
	Owned   []*Branch    `json:"owned,omitempty"`
}

// HistoryQuery selects the edits of [Client.History]. The zero value selects all.
type HistoryQuery struct {
	// VidraResource is the name of the only one.
	VidraResource string
	// Target is the only object. It excludes VidraResource.
	Target *Target
	// Namespace of the objects; empty for all.
	Namespace string
	// Since is the earliest time of the last occurrence.
	Since time.Time
}

// History has the edits of managed objects that statuses hold, the newest first.
type History struct {
	Edits []HistoryEdit `json:"edits"`
	// Remarks are what is not shown, and why.
	Remarks []string `json:"-"`
}

// HistoryEdit is an entry of the history of a VidraResource.
type HistoryEdit struct {
	VidraResource string `json:"vidraResource"`

	v1alpha1.HistoryEntry `json:",inline"`
}

// EventQuery selects Events of Vidra. The zero value selects all.
type EventQuery struct {
	// VidraResource is the name of one that the Events are about, or whose objects.
	VidraResource string
	// Target is an object that the Events are about. Its namespace is Namespace.
	Target *Target
	// Namespace of an object that the Events are about; empty for all.
	Namespace string
	// Reasons are those of which an Event has one; none for all.
	Reasons []string
	// Type is Normal or Warning; empty for both.
	Type string
	// Since is the earliest time of the last occurrence.
	Since time.Time
}

// Events are Events of Vidra, the newest last.
type Events struct {
	Items []*eventsv1.Event
	// Remarks are what is not shown, and why.
	Remarks []string
}

// Explanation says who manages and who edited an object, and how to keep a change.
type Explanation struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	// ManagedBy are the VidraResources that manage the object.
	ManagedBy []ManagedBy `json:"managedBy"`
	// Others are the other field managers that own fields of the object, but for its status.
	Others []OtherWriter `json:"others,omitempty"`
	// Notes are what the API server has not recorded.
	Notes []string `json:"notes,omitempty"`
	// Edits of the object, the newest first.
	Edits []Edit `json:"edits,omitempty"`
	// Missing is what could not be read, and why.
	Missing []string `json:"missing,omitempty"`

	// Argument is the object as an argument of a command: deployment/web -n shop.
	Argument string `json:"-"`
	// Exists reports that the object was read. Absent reports that it is known not to exist in this cluster.
	Exists bool `json:"-"`
	Absent bool `json:"-"`
	// Remarks are what is not shown, and why.
	Remarks []string `json:"-"`
}

// ManagedBy is what a VidraResource has to do with an object.
type ManagedBy struct {
	VidraResource string `json:"vidraResource"`
	// State of the object in the inventory.
	State string `json:"state,omitempty"`
	// Drift is the mode of spec.drift. Suspended reports spec.suspend.
	Drift     string `json:"drift,omitempty"`
	Suspended bool   `json:"suspended,omitempty"`
	// Cluster is that of the object, if it is another one.
	Cluster string `json:"cluster,omitempty"`
	// DefinedIn is where the manifest has the object. EditWith is the command that edits it.
	DefinedIn string `json:"definedIn,omitempty"`
	EditWith  string `json:"editWith,omitempty"`
	// Fields are the fields that the VidraResource owns.
	Fields []string `json:"fields,omitempty"`
	// BreakGlass is the answer to the break-glass annotations.
	BreakGlass *v1alpha1.BreakGlassStatus `json:"breakGlass,omitempty"`
	// Problems are those of the object.
	Problems []v1alpha1.Problem `json:"problems,omitempty"`
	// Left are the fields that rules of spec.drift.ignore leave to others.
	Left []string `json:"left,omitempty"`
	// Controlled are the fields that are left to the controllers that write them by contract.
	Controlled []string `json:"controlled,omitempty"`
	// Lines are where the manifest has the fields that were edited last. The one without a field is the
	// whole object, which was deleted.
	Lines []FieldLine `json:"lines,omitempty"`
	// Rule leaves those fields to others, if it is added to spec.drift.ignore.
	Rule *v1alpha1.IgnoreRule `json:"ignoreRule,omitempty"`
	// Example reports that no edit is known, and Lines and Rule are about another field.
	Example bool `json:"example,omitempty"`

	// LinesFrom is where lines of the manifest are counted from; empty if the manifest is not known.
	LinesFrom string `json:"-"`
	// Rules are those of spec.drift.ignore, to which Rule is added.
	Rules []v1alpha1.IgnoreRule `json:"-"`
}

// FieldLine is where the manifest has a field.
type FieldLine struct {
	Field string `json:"field"`
	Place string `json:"place"`
}

// OtherWriter is a field manager other than those of VidraResources.
type OtherWriter struct {
	Manager     string      `json:"manager"`
	Operation   string      `json:"operation"`
	Subresource string      `json:"subresource,omitempty"`
	Time        metav1.Time `json:"time"`
	Fields      []string    `json:"fields"`

	// Values are those of Fields, in JSON and shortened; masked or empty where they are not shown.
	Values []string `json:"-"`
}

// Edit is one edit of an object, and what became of it.
type Edit struct {
	Last   metav1.Time `json:"last"`
	Count  int64       `json:"count"`
	Reason string      `json:"reason"`
	Note   string      `json:"note"`
	// Fields are the paths of what was edited, separated by commas.
	Fields string `json:"-"`
	// User who made the edit; empty if that is not known.
	User string `json:"-"`
}

// Blame has the lines of an object with their owners.
type Blame struct {
	Lines []BlameLine `json:"lines"`

	// Sources are where the manifests of the owners are.
	Sources []string `json:"-"`
	// Remarks are what is not shown, and why.
	Remarks []string `json:"-"`
}

// BlameLine is a line of the object.
type BlameLine struct {
	Text string `json:"text"`
	// Pointer is the field that begins on the line, as a JSON pointer.
	Pointer string `json:"pointer,omitempty"`
	// Manifest is where manifests have the field; Managers are the other field managers that own it.
	Manifest []string      `json:"manifest,omitempty"`
	Managers []LineManager `json:"managers,omitempty"`
	// Edits are what was done about edits of the field.
	Edits []Edit `json:"edits,omitempty"`
}

// LineManager is a field manager that owns a line.
type LineManager struct {
	Manager     string      `json:"manager"`
	Subresource string      `json:"subresource,omitempty"`
	Time        metav1.Time `json:"time"`
}
