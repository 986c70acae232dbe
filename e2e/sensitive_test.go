package e2e

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// planted is what all values of sensitive objects hold in TestSensitiveValuesStay.
const planted = "hunter2"

// plant is one way to have a value of a sensitive object leave the process: an object, and an edit of it that
// takes the mark of a sensitive object away, or comes together with it.
type plant struct {
	name string
	// manifest is what the VidraResource has; the object in it is called like the plant.
	manifest string
	options  []func(*v1alpha1.VidraResource)
	// before is what a user does before the edit, and edit is the edit. offline makes the edit while no operator runs.
	before, edit func(obj *unstructured.Unstructured) error
	offline      bool
	// reported is a reason of an Event about the edit, with a part of its note.
	reported, note string
	// foreign has the object exist before the VidraResource: nothing is edited.
	foreign string
	// denied reports that a policy with the name of the plant denies a write, so that the object is removed with its binding alone.
	denied bool
	// logged is what the log has about it, if it is not reported otherwise.
	logged string
}

// value is a value that must not leave the process.
func (p *plant) value(of string) string { return planted + "-" + p.name + "-" + of }

// mark returns the edit that sets the annotation, or removes it where value is nil.
func mark(value any) func(*unstructured.Unstructured) error {
	return func(obj *unstructured.Unstructured) error {
		return mergePatch(obj, `{"metadata":{"annotations":{%q:%s}}}`, ownership.SensitiveAnnotation, jsonOf(value))
	}
}

func jsonOf(value any) string {
	if value == nil {
		return "null"
	}
	return fmt.Sprintf("%q", value)
}

// put replaces the object with one that only has data and the label of Vidra, as kubectl replace does.
func (p *plant) put(obj *unstructured.Unstructured) error {
	return edit(obj, types.MergePatchType, fmt.Sprintf(
		`{"metadata":{"annotations":null,"managedFields":[{}]},"data":{"password":%q,"other":%q}}`, p.encoded("theirs"), p.encoded("more")))
}

// encoded is a value as data has it.
func (p *plant) encoded(of string) string {
	if strings.HasPrefix(p.manifest, "apiVersion: v1\nkind: Secret") {
		return base64.StdEncoding.EncodeToString([]byte(p.value(of)))
	}
	return p.value(of)
}

// sensitiveStates are the ways in which an object is sensitive before an edit.
func sensitiveStates() map[string]func(p *plant) {
	object := func(kind, annotation string) func(p *plant) {
		return func(p *plant) {
			p.manifest = fmt.Sprintf("apiVersion: v1\nkind: %s\nmetadata: {name: %s%s}\n", kind, p.name, annotation)
			p.manifest += fmt.Sprintf("data: {password: %s, list: %s}\n", p.encoded("ours"), p.encoded("list"))
		}
	}
	annotated := func(value string) string {
		return ", annotations: {" + ownership.SensitiveAnnotation + `: "` + value + `"}`
	}
	return map[string]func(p *plant){
		"secret": object("Secret", ""),
		"true":   object("ConfigMap", annotated("true")),
		"empty":  object("ConfigMap", annotated("")),
		"live": func(p *plant) {
			object("ConfigMap", "")(p)
			p.before = mark("true")
		},
		"source": func(p *plant) {
			object("ConfigMap", "")(p)
			p.options = append(p.options, fromParts(partIn("Secret", p.name, "m")))
		},
	}
}

// sensitiveEdits are the ways in which a user edits an object and takes its mark away.
func sensitiveEdits() map[string]func(p *plant) {
	patch := func(annotation any, format string) func(p *plant) {
		return func(p *plant) {
			p.edit = func(obj *unstructured.Unstructured) error {
				return mergePatch(obj, `{"metadata":{"annotations":{%q:%s}},"data":`+format+`}`,
					ownership.SensitiveAnnotation, jsonOf(annotation), p.encoded("theirs"))
			}
		}
	}
	return map[string]func(p *plant){
		"value":      patch(nil, `{"password":%q}`),
		"false":      patch("false", `{"password":%q}`),
		"structural": patch(nil, `{"password":null,"added":%q}`),
		"replaced":   func(p *plant) { p.edit = p.put },
		"later": func(p *plant) {
			p.edit = func(obj *unstructured.Unstructured) error {
				if err := mark(nil)(obj); err != nil {
					return err
				}
				return mergePatch(obj, `{"data":{"password":%q}}`, p.encoded("theirs"))
			}
		},
		"applied": func(p *plant) {
			p.edit = func(obj *unstructured.Unstructured) error {
				return edit(obj, types.ApplyPatchType, fmt.Sprintf(
					`{"apiVersion":"v1","kind":%q,"metadata":{"name":%q,"annotations":{%q:"false"}},"data":{"password":%q}}`,
					obj.GetKind(), obj.GetName(), ownership.SensitiveAnnotation, p.encoded("theirs")),
					client.FieldOwner("team"), client.ForceOwnership)
			}
		},
	}
}

// listHead is the begin of a list with one object.
const listHead = "apiVersion: v1\nkind: List\nitems:\n- "

// plants are all ways: the states with each edit, online and offline, and special ones.
func plants() (all []*plant) {
	for state, be := range sensitiveStates() {
		for how, edited := range sensitiveEdits() {
			for _, offline := range []bool{false, true} {
				if offline && (how == "later" || how == "applied") {
					continue // the operator sees one edit
				}
				p := &plant{name: state + "-" + how, offline: offline, reported: "DriftCorrected", note: "data."}
				if offline {
					p.name += "-offline"
				}
				be(p)
				edited(p)
				all = append(all, p)
			}
		}
	}
	add := func(name, state, how, reported, note string, change ...func(p *plant)) {
		p := &plant{name: name, reported: reported, note: note}
		if state != "" {
			sensitiveStates()[state](p)
		}
		if how != "" {
			sensitiveEdits()[how](p)
		}
		for _, c := range change {
			c(p)
		}
		all = append(all, p)
	}
	drift := func(policy v1alpha1.DriftPolicy) func(p *plant) {
		return func(p *plant) { p.options = append(p.options, withDrift(policy)) }
	}
	warn, suspended := drift(v1alpha1.DriftPolicy{Mode: v1alpha1.DriftWarn}), func(p *plant) {
		before := p.before
		p.before = func(obj *unstructured.Unstructured) error {
			if before != nil {
				if err := before(obj); err != nil {
					return err
				}
			}
			return mergePatch(&v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: obj.GetNamespace() + "-" + p.name}}, `{"spec":{"suspend":true}}`)
		}
	}
	add("warn-value", "true", "value", "DriftDetected", "data.password", warn)
	add("warn-live", "live", "value", "DriftDetected", "data.password", warn)
	add("warn-structural", "live", "structural", "DriftDetected", "data.", warn)
	add("warn-offline", "live", "value", "DriftDetected", "data.password", warn, func(p *plant) { p.offline = true })
	add("suspended-value", "live", "value", "DriftDetected", "data.password", suspended)
	add("suspended-structural", "true", "structural", "DriftDetected", "data.", suspended)
	for _, offline := range []bool{false, true} {
		name := "tool-adds"
		if offline {
			name += "-offline"
		}
		add(name, "live", "", "DriftDetected", "data.added", drift(v1alpha1.DriftPolicy{Additions: v1alpha1.AdditionsWarn}), func(p *plant) {
			p.offline = offline
			p.edit = func(obj *unstructured.Unstructured) error {
				return edit(obj, types.MergePatchType, fmt.Sprintf(`{"metadata":{"annotations":{%q:null}},"data":{"added":%q}}`,
					ownership.SensitiveAnnotation, p.value("theirs")), client.FieldOwner("kubectl-edit"))
			}
		})
	}
	for _, state := range []string{"true", "live"} {
		add("recreated-"+state, state, "", "DriftCorrected", "data.password", func(p *plant) {
			p.offline = true
			p.edit = func(obj *unstructured.Unstructured) error {
				live := &unstructured.Unstructured{Object: map[string]any{
					"apiVersion": "v1", "kind": obj.GetKind(), "data": map[string]any{"password": p.value("theirs")},
				}}
				live.SetNamespace(obj.GetNamespace())
				live.SetName(obj.GetName())
				live.SetLabels(map[string]string{v1alpha1.ManagedByLabel: v1alpha1.ManagedByValue})
				if err := admin.Delete(context.Background(), obj.DeepCopy()); err != nil {
					return err
				}
				return admin.Create(context.Background(), live)
			}
		})
	}
	add("author-unmarks", "true", "", "", "", func(p *plant) {
		p.edit = func(obj *unstructured.Unstructured) error {
			return mergePatch(&v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: obj.GetNamespace() + "-" + p.name}}, `{"spec":{"manifest":%q}}`,
				strings.NewReplacer(ownership.SensitiveAnnotation, "other", p.value("ours"), "public", p.value("list"), "public").Replace(p.manifest))
		}
	})
	const service = "apiVersion: v1\nkind: Service\nmetadata: {name: %[1]s%[2]s}\nspec: {type: ExternalName, externalName: %[3]s}\n"
	refused := func(p *plant) {
		p.manifest = fmt.Sprintf(service, p.name, "", "public.example.com")
		p.edit = func(obj *unstructured.Unstructured) error {
			return mergePatch(&v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: obj.GetNamespace() + "-" + p.name}}, `{"spec":{"manifest":%q}}`,
				fmt.Sprintf(service, p.name, "", `"`+p.value("ours")+`!"`))
		}
	}
	add("refused-live", "", "", "ManifestInvalid", "spec.externalName", refused, func(p *plant) { p.before = mark("true") })
	add("refused-true", "", "", "ManifestInvalid", "spec.externalName", func(p *plant) {
		p.manifest = fmt.Sprintf(service, p.name, ", annotations: {"+ownership.SensitiveAnnotation+`: "true"}`, `"`+p.value("ours")+`!"`)
	})
	for _, answer := range []struct{ name, reason string }{{"denied", "ApplyFailed"}, {"warned", "Warned"}} { // by quotingPolicies
		add(answer.name+"-true", "true", "", answer.reason, "withheld", func(p *plant) {
			p.manifest = strings.Replace(p.manifest, "-ours", "-ours-bad", 1)
		})
		add(answer.name+"-live", "live", "", answer.reason, "withheld", func(p *plant) {
			p.edit = func(obj *unstructured.Unstructured) error {
				return mergePatch(&v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: obj.GetNamespace() + "-" + p.name}}, `{"spec":{"manifest":%q}}`,
					strings.Replace(p.manifest, "-ours", "-ours-bad", 1))
			}
		})
	}
	add("adopted-live", "", "", "AdoptionRefused", "data.password", func(p *plant) {
		p.manifest = fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, annotations: {%s: \"false\"}}\ndata: {password: %s}\n",
			p.name, ownership.SensitiveAnnotation, p.value("ours"))
		p.foreign = fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, annotations: {%s: \"true\"}}\ndata: {password: %s}\n",
			p.name, ownership.SensitiveAnnotation, p.value("theirs"))
	})
	add("adopted-manifest", "true", "", "AdoptionRefused", "data.password", func(p *plant) {
		p.foreign = fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {password: %s}\n", p.name, p.value("theirs"))
	})
	add("warned-adopted", "true", "", "AdoptionRefused", "data.password", func(p *plant) { // by a dry run
		p.manifest = strings.Replace(p.manifest, "-ours", "-ours-bad", 1)
		p.foreign = fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {password: %s}\n", p.name, p.value("theirs"))
	})
	add("warned-removed", "true", "", "Pruned", "ConfigMap", func(p *plant) { // by the release of an object that another client owns, too
		p.edit = func(obj *unstructured.Unstructured) error {
			vr := &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: obj.GetNamespace() + "-" + p.name}}
			bad := strings.Replace(p.manifest, "-ours", "-ours-bad", 1)
			if err := mergePatch(vr, `{"spec":{"prune":false,"manifest":%q}}`, bad+"---\n"+configMap(p.name+"-other", "a")); err != nil {
				return err
			}
			if err := edit(obj, types.MergePatchType, fmt.Sprintf(`{"data":{"password":%q}}`, p.value("ours-bad")), client.FieldOwner("kubectl-edit")); err != nil {
				return err
			}
			return mergePatch(vr, `{"spec":{"manifest":%q}}`, configMap(p.name+"-other", "a"))
		}
	})
	const deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: %[1]s}\nspec:\n  replicas: 0\n  selector: {matchLabels: {app: web}}\n" +
		"  template:\n    metadata: {labels: {app: web}}\n    spec: {containers: [{name: web, image: web, env: [{name: PASSWORD, value: %[2]s}]}]}\n"
	variable := func(p *plant) { p.manifest = fmt.Sprintf(deployment, p.name, p.value("ours")) }
	add("env-edited", "", "", "DriftCorrected", `env[name="PASSWORD"]`, variable, func(p *plant) {
		p.edit = func(obj *unstructured.Unstructured) error {
			return jsonPatch(obj, `[{"op":"replace","path":"/spec/template/spec/containers/0/env/0/value","value":%q}]`, p.value("theirs"))
		}
	})
	for _, answer := range []struct{ name, reason, note string }{
		{"env-denied", "ApplyFailed", "bad: (withheld)"}, {"env-invalid", "ApplyFailed", "bad: (withheld)"}, {"env-warned", "Warned", "bad: (withheld)"},
	} {
		add(answer.name, "", "", answer.reason, answer.note, func(p *plant) { p.manifest = fmt.Sprintf(deployment, p.name, p.value("ours")+"-bad") })
	}
	add("env-original", "", "", "DriftCorrected", "kapp.k14s.io/original", func(p *plant) { // clients keep the whole object in an annotation
		p.manifest = fmt.Sprintf(deployment, p.name, "other")
		p.manifest = strings.Replace(p.manifest, "}", ", annotations: {kapp.k14s.io/original: "+p.value("ours")+"}}", 1)
		p.edit = func(obj *unstructured.Unstructured) error {
			return mergePatch(obj, `{"metadata":{"annotations":{"kapp.k14s.io/original":%q}}}`, p.value("theirs"))
		}
	})
	add("embedded", "", "", "DriftCorrected", "spec.", func(p *plant) { // in an object of another kind
		p.manifest = fmt.Sprintf("apiVersion: GROUP/v1\nkind: Thing\nmetadata: {name: %s}\nspec: {objects: {a: {apiVersion: v1, kind: Secret, stringData: {password: %s}}}}\n", p.name, p.value("ours"))
		p.edit = func(obj *unstructured.Unstructured) error {
			return mergePatch(obj, `{"spec":{"objects":{"a":{"kind":"ConfigMap","stringData":{"password":%q}}}}}`, p.value("theirs"))
		}
	})
	add("text", "", "", "DriftCorrected", "data.", func(p *plant) { // in the text of a manifest for another controller
		text := func(kind, of string) string {
			return fmt.Sprintf("apiVersion: v1\nkind: %s\nmetadata: {name: inner}\nstringData: {password: %s}\n", kind, p.value(of))
		}
		p.manifest = fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {manifest: %q}\n", p.name, text("Secret", "ours"))
		p.edit = func(obj *unstructured.Unstructured) error {
			return mergePatch(obj, `{"data":{"manifest":%q}}`, text("Other", "theirs"))
		}
	})
	for _, item := range []struct{ name, list, patch string }{ // values that identify the items of lists are in managedFields, and in the paths of fields
		{"set", "set: [%s, other]", `[{"op":"remove","path":"/metadata/annotations"},{"op":"replace","path":"/spec/set/0","value":%q}]`},
		{"keyed", "keyed: [{token: %s, size: 1}]", `[{"op":"remove","path":"/metadata/annotations"},{"op":"replace","path":"/spec/keyed/0/token","value":%q}]`},
	} {
		add(item.name, "", "", "DriftCorrected", "spec."+item.name, func(p *plant) {
			p.manifest = fmt.Sprintf("apiVersion: GROUP/v1\nkind: Thing\nmetadata: {name: %s, annotations: {%s: \"true\"}}\nspec: {%s}\n",
				p.name, ownership.SensitiveAnnotation, fmt.Sprintf(item.list, p.value("ours")))
			p.edit = func(obj *unstructured.Unstructured) error { return jsonPatch(obj, item.patch, p.value("theirs")) }
		})
	}
	add("list", "", "", "DriftCorrected", "data.password", func(p *plant) { // of Secrets, which have no kind of their own
		p.manifest = fmt.Sprintf(listHead+"{apiVersion: v1, kind: Secret, metadata: {name: %s}, stringData: {password: %s}}\n", p.name, p.value("ours"))
		p.edit = func(obj *unstructured.Unstructured) error {
			return mergePatch(obj, `{"stringData":{"password":%q}}`, p.value("theirs"))
		}
	})
	add("binary", "", "", "DriftCorrected", "binaryData.password", func(p *plant) {
		p.manifest = fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, annotations: {%s: \"true\"}}\nbinaryData: {password: %s}\n",
			p.name, ownership.SensitiveAnnotation, base64.StdEncoding.EncodeToString([]byte(p.value("ours"))))
		p.edit = func(obj *unstructured.Unstructured) error {
			return mergePatch(obj, `{"metadata":{"annotations":null},"binaryData":{"password":%q}}`, base64.StdEncoding.EncodeToString([]byte(p.value("theirs"))))
		}
	})
	add("immutable", "", "", "ApplyFailed", "immutable", func(p *plant) {
		secret := func(of string) string {
			return fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: %s}\nimmutable: true\nstringData: {password: %s}\n", p.name, p.value(of))
		}
		p.manifest = secret("ours")
		p.edit = func(obj *unstructured.Unstructured) error {
			return mergePatch(&v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: obj.GetNamespace() + "-" + p.name}}, `{"spec":{"manifest":%q}}`, secret("more"))
		}
	})
	add("delete-denied", "true", "", "PruneFailed", "withheld", func(p *plant) { // by a policy that quotes the object that is to be removed
		p.manifest, p.denied = strings.Replace(p.manifest, "-ours", "-ours-bad", 1), true
		p.edit = func(obj *unstructured.Unstructured) error {
			return mergePatch(&v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: obj.GetNamespace() + "-" + p.name}}, `{"spec":{"manifest":%q}}`, configMap(p.name+"-other", "a"))
		}
	})
	add("right-denied", "true", "", "ApplyFailed", "withheld", func(p *plant) { // by a policy whose message looks like that about a right
		p.manifest = strings.Replace(p.manifest, "-ours", "-ours-bad", 1)
	})
	add("status", "", "", "", "", func(p *plant) { // whose status a policy refuses with the manifest in its message: the log has the error
		p.manifest = fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: %s}\nstringData: {password: %s}\n", p.name, p.value("ours"))
		p.logged = "the API server answered"
	})
	add("broken", "source", "", "ManifestInvalid", "cannot be read", func(p *plant) { p.manifest += "  more: [" + p.value("more") + "\n" })
	add("nested-env", "", "", "DriftCorrected", "spec.manifest", func(p *plant) {
		p.manifest = fmt.Sprintf("apiVersion: infrahub.operators.com/v1alpha1\nkind: VidraResource\n"+
			"metadata: {name: %s, labels: {%s: %s}}\nspec: {suspend: true, destination: {namespace: default}, manifest: %q}\n",
			"NS-nested-env", v1alpha1.InstallationLabel, "none", fmt.Sprintf(deployment, "web", p.value("ours")))
		p.edit = func(obj *unstructured.Unstructured) error {
			return mergePatch(obj, `{"spec":{"manifest":%q}}`, fmt.Sprintf(deployment, "web", p.value("theirs")))
		}
	})
	add("nested", "", "", "DriftCorrected", "spec.manifest", func(p *plant) {
		inner := func(value string) string {
			return fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: inner}\nstringData: {a: %s}\n", value)
		}
		p.manifest = fmt.Sprintf("apiVersion: infrahub.operators.com/v1alpha1\nkind: VidraResource\n"+
			"metadata: {name: %s, labels: {%s: %s}}\nspec: {suspend: true, destination: {namespace: default}, manifest: %q}\n",
			"NS-nested", v1alpha1.InstallationLabel, "none", inner(p.value("ours")))
		p.edit = func(obj *unstructured.Unstructured) error {
			return mergePatch(obj, `{"spec":{"manifest":%q}}`, fmt.Sprintf("{kind: ConfigMap, data: {a: %s}}", p.value("theirs")))
		}
	})
	return all
}

// TestSensitiveValuesStay plants values in sensitive objects in all ways, has users take the mark of a sensitive object
// away with the edits, before them and while the operator is away, and requires that no value leaves the operator or
// the command line: in Events, statuses, CloudEvents, logs at the highest level, traces, metrics and what commands print.
func TestSensitiveValuesStay(t *testing.T) {
	t.Parallel()
	suite.NeedsOwnControlPlane(t, "it starts an operator that sends traces and CloudEvents to this process")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	traces, server := &traceReceiver{}, grpc.NewServer()
	collector.RegisterTraceServiceServer(server, traces)
	go server.Serve(listener) //nolint:errcheck // Stop ends it
	t.Cleanup(server.Stop)
	sink := newCloudEventSink(t)
	ns := newNamespace(t)
	var logs []string
	var running *testenv.Operator
	start := func() {
		running, err = env.StartOperator(context.Background(), testenv.OperatorOptions{
			Binary: operatorBinary, Args: []string{"--installation=" + ns, "--cloudevents-sink=" + sink.url(), "--zap-log-level=100", "--event-values=all"},
			Env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + listener.Addr().String(), "OTEL_BSP_SCHEDULE_DELAY=100"},
		})
		require.NoError(t, err)
		logs = append(logs, running.Log)
	}
	start()
	t.Cleanup(func() { assert.NoError(t, running.Stop(stopTimeout)) })

	quotingPolicies(t, ns)
	crd, _ := newKind(t)
	listOf := func(kind string, keys ...string) apiextensionsv1.JSONSchemaProps {
		items := apiextensionsv1.JSONSchemaProps{Type: "string"}
		if len(keys) > 0 {
			items = apiextensionsv1.JSONSchemaProps{
				Type: "object", Required: keys, Properties: map[string]apiextensionsv1.JSONSchemaProps{"token": {Type: "string"}, "size": {Type: "integer"}},
			}
		}
		return apiextensionsv1.JSONSchemaProps{
			Type: "array", XListType: &kind, XListMapKeys: keys, Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &items},
		}
	}
	schema := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	schema.Properties = map[string]apiextensionsv1.JSONSchemaProps{"spec": {
		Type: "object", XPreserveUnknownFields: schema.XPreserveUnknownFields,
		Properties: map[string]apiextensionsv1.JSONSchemaProps{"set": listOf("set"), "keyed": listOf("map", "token")},
	}}
	require.NoError(t, admin.Create(t.Context(), crd))
	await(t, func(c *assert.CollectT) {
		require.NoError(c, admin.Get(context.Background(), client.ObjectKeyFromObject(crd), crd))
		require.True(c, slices.ContainsFunc(crd.Status.Conditions, func(is apiextensionsv1.CustomResourceDefinitionCondition) bool {
			return is.Type == apiextensionsv1.Established && is.Status == apiextensionsv1.ConditionTrue
		}))
	})
	all := plants()
	require.GreaterOrEqual(t, len(all), 40)
	objects := map[*plant]*unstructured.Unstructured{}
	for _, p := range all {
		vidraResource := ns + "-" + p.name
		if p.foreign != "" {
			require.NoError(t, admin.Create(t.Context(), declared(t, ns, p.foreign)[0]))
		}
		p.manifest = strings.NewReplacer("NS-", ns+"-inner-", "GROUP/", crd.Spec.Group+"/").Replace(p.manifest)
		readable, _, _ := strings.Cut(p.manifest, "  more: [") // of the broken one
		objects[p] = declared(t, ns, strings.TrimPrefix(readable, listHead))[0]
		manifest := p.manifest
		ofInstallation := func(v *v1alpha1.VidraResource) {
			v.Name, v.Labels = vidraResource, map[string]string{v1alpha1.InstallationLabel: ns}
			if len(v.Spec.ManifestFrom) > 0 {
				v.Spec.Manifest = ""
				require.NoError(t, admin.Create(t.Context(), &corev1.Secret{
					ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: p.name}, StringData: map[string]string{"m": manifest},
				}))
			}
		}
		newVidraResource(t, ns, manifest, append(p.options, ofInstallation)...)
	}
	for _, p := range all {
		if p.edit != nil {
			awaitReady(t, ns+"-"+p.name)
		}
		if p.before != nil {
			require.NoError(t, p.before(objects[p]), p.name)
		}
	}
	reported := func(p *plant) {
		switch {
		case p.logged != "":
			await(t, func(c *assert.CollectT) {
				require.True(c, slices.ContainsFunc(strings.Split(suite.LogOf(t, running), "\n"), func(line string) bool {
					return strings.Contains(line, ns+"-"+p.name) && strings.Contains(line, p.logged)
				}), p.name)
			})
			require.NoError(t, admin.Delete(t.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: ns + "-" + p.name}}))
			awaitReady(t, ns+"-"+p.name)
			return
		case p.reported == "":
			awaitReady(t, ns+"-"+p.name)
			return
		}
		v := &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: ns + "-" + p.name}}
		await(t, func(c *assert.CollectT) {
			var notes []string
			for _, e := range eventsAbout(c, v, p.reported) {
				notes = append(notes, e.Note)
			}
			require.Contains(c, strings.Join(notes, "\n"), p.note, p.name)
		})
	}
	for _, p := range all {
		if p.edit != nil && !p.offline {
			require.NoError(t, p.edit(objects[p]), p.name)
		}
	}
	for _, p := range all {
		if !p.offline {
			reported(p)
		}
		if p.denied {
			require.NoError(t, admin.Delete(t.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: ns + "-" + p.name}}))
		}
	}
	for _, p := range all { // a user who marks an object has it recorded
		if p.offline && p.before != nil {
			await(t, func(c *assert.CollectT) {
				require.True(c, entry(c, getVidraResource(c, ns+"-"+p.name), objects[p].GetKind(), p.name).Sensitive, p.name)
			})
		}
	}
	require.NoError(t, running.Stop(stopTimeout))
	for _, p := range all {
		if p.offline {
			require.NoError(t, p.edit(objects[p]), p.name)
		}
	}
	start()
	for _, p := range all {
		if p.offline {
			if p.note == "data.added" { // what was added while no operator ran is noticed with the next event
				awaitReady(t, ns+"-"+p.name)
				require.NoError(t, mergePatch(objects[p], `{"metadata":{"annotations":{"touched":"true"}}}`))
			}
			reported(p)
		}
	}
	found := leaks{}
	found.search("metrics", fetched(t, running.MetricsURL))
	readCommands(t, &found, ns, all, objects)
	require.NoError(t, running.Stop(stopTimeout)) // Events that wait are written
	start()
	for _, p := range all {
		v := getVidraResource(t, ns+"-"+p.name)
		found.search("status", fmt.Sprint(v.Status))
		found.search("metadata", fmt.Sprint(v.Labels, v.Annotations, v.Finalizers))
		live := objects[p].DeepCopy()
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(live), live); err == nil {
			for key, value := range live.GetAnnotations() {
				if strings.Contains(key, v1alpha1.GroupVersion.Group) {
					found.search("annotation "+key, value)
				}
			}
		} else {
			require.NoError(t, client.IgnoreNotFound(err))
		}
	}
	events := &eventsv1.EventList{}
	require.NoError(t, admin.List(t.Context(), events))
	for _, e := range events.Items {
		found.search("Event", e.String())
	}
	found.search("CloudEvents", sink.everything())
	traces.mu.Lock()
	found.search("traces", string(traces.raw))
	traces.mu.Unlock()
	for _, path := range logs {
		found.search("log", suite.LogOf(t, &testenv.Operator{Log: path}))
	}
	require.Empty(t, found.found)
}

// quotingPolicies has the API server deny, or warn of, objects of a namespace by their names, if their password ends in "bad": with
// the password in the message. It denies the status of the VidraResource NS-status, with its manifest in the message.
func quotingPolicies(t *testing.T, ns string) {
	t.Helper()
	configMaps := admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}}
	deployments := admissionv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}}
	statuses := admissionv1.Rule{APIGroups: []string{v1alpha1.GroupVersion.Group}, APIVersions: []string{"*"}, Resources: []string{"vidraresources/status"}}
	const data, env = "object.?data.password.orValue('')", "object.spec.template.spec.containers[0].env[0].?value.orValue('')"
	invalid, forbidden := metav1.StatusReasonInvalid, metav1.StatusReasonForbidden
	for name, policy := range map[string]struct {
		rule         admissionv1.Rule
		value, quote string
		reason       *metav1.StatusReason
		action       admissionv1.ValidationAction
	}{
		"denied":        {configMaps, data, "'bad: ' + " + data, nil, admissionv1.Deny},
		"warned":        {configMaps, data, "'bad: ' + " + data, nil, admissionv1.Warn},
		"right-denied":  {configMaps, data, `'configmaps "a" is forbidden: User "b" cannot ' + ` + data, &forbidden, admissionv1.Deny},
		"env-denied":    {deployments, env, "'bad: ' + " + env, &forbidden, admissionv1.Deny},
		"env-invalid":   {deployments, env, "'bad: ' + " + env, &invalid, admissionv1.Deny},
		"env-warned":    {deployments, env, "'bad: ' + " + env, nil, admissionv1.Warn},
		"delete-denied": {configMaps, "oldObject.?data.password.orValue('')", "'bad: ' + oldObject.data.password", nil, admissionv1.Deny},
		"status":        {statuses, "object.spec.manifest + 'bad'", "'bad: ' + object.spec.manifest", &forbidden, admissionv1.Deny},
	} {
		prefix := name
		if name == "status" {
			prefix = ns + "-" + name
		}
		object, operations := "object", []admissionv1.OperationType{admissionv1.Create, admissionv1.Update}
		if strings.HasPrefix(name, "delete") {
			object, operations = "oldObject", []admissionv1.OperationType{admissionv1.Delete}
		}
		bad := fmt.Sprintf("%s.metadata.name.startsWith('%s') && (%s).endsWith('bad')", object, prefix, policy.value)
		match := &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: operations, Rule: policy.rule,
		}}}}
		if name != "status" { // VidraResources have no namespace
			match.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": ns}}
		}
		quoting := &admissionv1.ValidatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: ns + "-" + name},
			Spec: admissionv1.ValidatingAdmissionPolicySpec{
				MatchConstraints: match,
				Validations:      []admissionv1.Validation{{Expression: "!(" + bad + ")", MessageExpression: policy.quote, Reason: policy.reason}},
			},
		}
		binding := &admissionv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: quoting.Name},
			Spec:       admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: quoting.Name, ValidationActions: []admissionv1.ValidationAction{policy.action}},
		}
		for _, obj := range []client.Object{quoting, binding} {
			require.NoError(t, admin.Create(t.Context(), obj))
			t.Cleanup(func() { require.NoError(t, client.IgnoreNotFound(admin.Delete(context.Background(), obj))) })
		}
		if name != "delete-denied" { // an object is removed much later
			awaitPolicy(t, ns, prefix, policy.rule)
		}
	}
}

// awaitPolicy waits until a policy of quotingPolicies is in force.
func awaitPolicy(t *testing.T, ns, prefix string, rule admissionv1.Rule) {
	t.Helper()
	var mu sync.Mutex
	warned := false
	config := rest.CopyConfig(env.Config)
	config.WarningHandler = warningFunc(func(text string) {
		mu.Lock()
		defer mu.Unlock()
		warned = warned || strings.Contains(text, "bad")
	})
	clients, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	try := func(ctx context.Context) error {
		_, err := clients.CoreV1().ConfigMaps(ns).Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: prefix + "-probe"}, Data: map[string]string{"password": "bad"},
		}, dryRun)
		return err
	}
	switch rule.Resources[0] {
	case "deployments":
		labels := map[string]string{"a": "b"}
		container := corev1.Container{Name: "a", Image: "a", Env: []corev1.EnvVar{{Name: "A", Value: "bad"}}}
		try = func(ctx context.Context) error {
			_, err := clients.AppsV1().Deployments(ns).Create(ctx, &appsv1.Deployment{
				ObjectMeta: metav1.ObjectMeta{Name: prefix + "-probe"},
				Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{container}},
				}},
			}, dryRun)
			return err
		}
	case "vidraresources/status":
		probe := newVidraResource(t, prefix+"-probe", configMap("a", "b"), func(v *v1alpha1.VidraResource) {
			v.Labels = map[string]string{v1alpha1.InstallationLabel: "none"}
		})
		try = func(ctx context.Context) error {
			return admin.Status().Patch(ctx, probe.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"status":{"deployState":"Running"}}`)), client.DryRunAll)
		}
	}
	await(t, func(c *assert.CollectT) {
		err := try(context.Background())
		mu.Lock()
		defer mu.Unlock()
		require.True(c, err != nil && strings.Contains(err.Error(), "bad") || warned, "the policy is not in force yet: %v", err)
	})
}

// warningFunc handles the warnings of the API server.
type warningFunc func(text string)

// HandleWarningHeader implements rest.WarningHandler.
func (f warningFunc) HandleWarningHeader(_ int, _, text string) { f(text) }

// leaks are values that left the process.
type leaks struct {
	// mu guards found.
	mu    sync.Mutex
	found []string
}

// plantedForms are the forms of the begin of all values: as it is, in hex, and in base64 at each place of a longer text.
var plantedForms = func() []string {
	forms := []string{planted, hex.EncodeToString([]byte(planted)), strings.ToUpper(hex.EncodeToString([]byte(planted)))}
	for before := range 3 {
		encoded := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("x", before) + planted))
		forms = append(forms, encoded[(8*before+5)/6:8*(before+len(planted))/6])
	}
	return forms
}()

// search notes the values in what left the process at some place.
func (l *leaks) search(place, text string) {
	for _, form := range plantedForms {
		if at := strings.Index(text, form); at >= 0 {
			l.mu.Lock()
			l.found = append(l.found, fmt.Sprintf("%s: %s", place, text[max(0, at-150):min(len(text), at+60)]))
			l.mu.Unlock()
		}
	}
}

// fetched is what an operator serves.
func fetched(t *testing.T, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close() //nolint:errcheck // it was only read
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return string(body)
}

// readCommands searches what commands print about all plants.
func readCommands(t *testing.T, found *leaks, ns string, all []*plant, objects map[*plant]*unstructured.Unstructured) {
	t.Helper()
	vidra := commandLine{binary: buildVidra(t), kubeconfig: env.KubeconfigPath}
	var running errgroup.Group
	running.SetLimit(4)
	run := func(args ...string) {
		running.Go(func() error {
			vidra := vidra
			vidra.name = args[0]
			stdout, stderr, _ := vidra.run(t, args[1:]...)
			found.search("vidra "+strings.Join(args, " "), stdout+stderr)
			return nil
		})
	}
	for _, format := range []string{"json", "yaml"} {
		run("status", "-o", format)
		run("events", "-A", "-o", "json")
		run("history", "-o", format)
	}
	run("status")
	run("events", "-A")
	run("history")
	for _, p := range all {
		obj := objects[p]
		target := strings.ToLower(obj.GetKind()) + "/" + obj.GetName()
		run("why", target, "-n", ns, "-o", "wide")
		run("blame", target, "-n", ns)
		if !strings.Contains(p.name, "-") || p.reported != "DriftCorrected" {
			for _, format := range []string{"", "json", "yaml", "markdown"} {
				if format == "" {
					run("diff", ns+"-"+p.name)
				} else {
					run("diff", ns+"-"+p.name, "-o", format)
				}
			}
			run("why", target, "-n", ns, "-o", "yaml")
			run("keep", target, "-n", ns)
			run("keep", target, "-n", ns, "-o", "json")
			run("history", target, "-n", ns, "-o", "json")
			run("events", "--for", target, "-n", ns, "-o", "json")
			run("blame", target, "-n", ns, "-o", "json")
			run("forecast", ns+"-"+p.name, "-o", "json")
			run("forecast", ns+"-"+p.name)
			run("tree", ns+"-"+p.name, "-o", "wide")
		}
	}
	require.NoError(t, running.Wait())
}
