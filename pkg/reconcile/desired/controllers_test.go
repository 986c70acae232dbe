package desired

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/manifest"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

func TestControllerFields(t *testing.T) {
	t.Parallel()
	certificate := base64.StdEncoding.EncodeToString([]byte("-----BEGIN CERTIFICATE-----\n"))
	role := func(rest string) string {
		return `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"a"}` + rest + `}`
	}
	webhook := func(annotations, bundle string) string {
		return `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingWebhookConfiguration","metadata":{"name":"a","annotations":{` + annotations +
			`}},"webhooks":[{"name":"x","clientConfig":{"url":"https://x"}},{"name":"y","clientConfig":{"caBundle":` + bundle + `}}]}`
	}
	const second = "/webhooks/1/clientConfig/caBundle"
	cases := map[string]struct {
		reason, object string
		want           []string
	}{
		"Aggregated":    {"The aggregation controller writes them.", role(`,"aggregationRule":{},"rules":[]`), []string{"/rules"}},
		"AggregatedSet": {"It overwrites them, too.", role(`,"aggregationRule":{},"rules":[{"verbs":["get"]}]`), []string{"/rules"}},
		"Role":          {"No controller writes them.", role(`,"rules":[]`), nil},
		"NoRules":       {"The manifest does not have the field.", role(`,"aggregationRule":{}`), nil},
		"EmptyBundle":   {"An injector writes it.", webhook("", `""`), []string{second}},
		"NullBundle":    {"An injector writes it.", webhook("", `null`), []string{second}},
		"Placeholder":   {"A line end is a usual placeholder.", webhook("", `"Cg=="`), []string{second}},
		"Certificate":   {"The manifest means it.", webhook("", `"`+certificate+`"`), nil},
		"Asked":         {"An annotation asks for an injector.", webhook(`"cert-manager.io/inject-ca-from":"a/b"`, `"`+certificate+`"`), []string{second}},
		"Claim":         {"The binder writes it.", `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"a"},"spec":{"volumeName":""}}`, []string{"/spec/volumeName"}},
		"BoundClaim":    {"The manifest chooses the volume.", `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"a"},"spec":{"volumeName":"b"}}`, nil},
		"Account":       {"The token controller adds them.", `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"a"},"secrets":[]}`, []string{"/secrets"}},
		"Exported": {"The controller of Deployments owns it.",
			`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a","annotations":{"deployment.kubernetes.io/revision":"3","mine":"x"}}}`,
			[]string{"/metadata/annotations/deployment.kubernetes.io~1revision"}},
		"Node": {"The kubelet labels its Node, and users do.",
			`{"apiVersion":"v1","kind":"Node","metadata":{"name":"a","labels":{"kubernetes.io/os":"linux","topology.kubernetes.io/zone":"a","mine":"x"}}}`,
			[]string{"/metadata/labels/kubernetes.io~1os", "/metadata/labels/topology.kubernetes.io~1zone"}},
		"NodeLabelOfAPod": {"A node selector of a workload is the label of another kind.", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{"kubernetes.io/os":"linux"}}}`, nil},
		"InjectedBundle": {"OpenShift writes it.",
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"config.openshift.io/inject-trusted-cabundle":"true"}},"data":{"ca-bundle.crt":"","other":"x"}}`,
			[]string{"/data/ca-bundle.crt"}},
		"RootCA":  {"The publisher of the root CA writes it.", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"kube-root-ca.crt"},"data":{"ca.crt":"old"}}`, []string{"/data/ca.crt"}},
		"OtherCA": {"It is a ConfigMap like others.", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"ca.crt":""}}`, nil},
		"Token": {"The token controller fills it.",
			`{"apiVersion":"v1","kind":"Secret","type":"kubernetes.io/service-account-token","metadata":{"name":"a"},"data":{"token":"","ca.crt":"YQ==","namespace":""}}`,
			[]string{"/data/ca.crt", "/data/namespace", "/data/token"}},
		"TokenValue": {"The token controller keeps it.",
			`{"apiVersion":"v1","kind":"Secret","type":"kubernetes.io/service-account-token","metadata":{"name":"a"},"data":{"token":"YQ=="}}`, nil},
		"Certificates": {"Nothing fills it.", `{"apiVersion":"v1","kind":"Secret","type":"kubernetes.io/tls","metadata":{"name":"a"},"data":{"ca.crt":""}}`, nil},
		"Pod": {"The scheduler binds it when its gates are gone.",
			`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"nodeName":"","schedulingGates":[{"name":"example.com/a"}]}}`, []string{"/spec/nodeName", "/spec/schedulingGates"}},
		"BoundPod":  {"The manifest chooses the Node.", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"nodeName":"b"}}`, nil},
		"Endpoints": {"The endpoints controller writes them.", `{"apiVersion":"v1","kind":"Endpoints","metadata":{"name":"a"},"subsets":[]}`, []string{"/subsets"}},
		"Addresses": {"A Service without a selector has those of the manifest.", `{"apiVersion":"v1","kind":"Endpoints","metadata":{"name":"a"},"subsets":[{"addresses":[{"ip":"192.0.2.1"}]}]}`, nil},
		"Lease": {"Its holder renews it.",
			`{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"a"},"spec":{"holderIdentity":"x","leaseDurationSeconds":15,"leaseTransitions":3}}`,
			[]string{"/spec/holderIdentity", "/spec/leaseTransitions"}},
		"OwnBundle":    {"Nothing asks for it.", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"ca-bundle.crt":"","service-ca.crt":""}}`, nil},
		"CustomStatus": {"Its controller may write it to the object itself.", `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"},"status":{"phase":"","conditions":[],"nested":{"at":null}}}`, []string{"/status"}},
		"CustomValue":  {"Without the subresource it is a field like others.", `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"},"status":{"phase":"New"}}`, nil},
		"Status":       {"The API server ignores it.", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"status":{"replicas":1}}`, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			obj := fixture.UnstructuredOf(t, tc.object)
			require.Equal(t, tc.want, controllerFieldsIn(obj), tc.reason)
			for policy, want := range map[v1alpha1.ControllerFieldsPolicy]bool{"": tc.want != nil, v1alpha1.ControllerFieldsRevert: false} {
				rules, err := rulesOf(&v1alpha1.VidraResource{Spec: v1alpha1.VidraResourceSpec{Drift: &v1alpha1.DriftPolicy{ControllerFields: policy}}})
				require.NoError(t, err)
				_, ignored := matchedIn(rules.of(obj), obj, rules.steps)
				require.Equal(t, want, ignored != nil, tc.reason)
				require.Empty(t, rules.unmatched())
			}
		})
	}
}

// TestBindings: the fields that bind an object to one that may be gone are neither applied nor enforced, and are shown as those of controllers. With
// Revert they are fields like others.
func TestBindings(t *testing.T) {
	t.Parallel()
	const uid = `"11111111-1111-1111-1111-111111111111"`
	cases := map[string]struct {
		reason, object string
		dropped        []string
	}{
		"Volume": {"The binder writes them.",
			`{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"a","annotations":{"pv.kubernetes.io/bound-by-controller":"yes"}},"spec":{"claimRef":{"name":"b","uid":` + uid + `,"resourceVersion":"7"}}}`,
			[]string{"metadata.annotations.pv.kubernetes.io/bound-by-controller", "spec.claimRef.uid", "spec.claimRef.resourceVersion"}},
		"Claim": {"The binder writes it.",
			`{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"a","annotations":{"pv.kubernetes.io/bind-completed":"yes","mine":"x"}},"spec":{"volumeName":"b"}}`,
			[]string{"metadata.annotations.pv.kubernetes.io/bind-completed"}},
		"Token": {"The token controller writes it.",
			`{"apiVersion":"v1","kind":"Secret","type":"kubernetes.io/service-account-token","metadata":{"name":"a","annotations":{"kubernetes.io/service-account.name":"b","kubernetes.io/service-account.uid":` + uid + `}}}`,
			[]string{"metadata.annotations.kubernetes.io/service-account.uid"}},
		"OtherSecret": {"The type of the Secret decides.",
			`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a","annotations":{"kubernetes.io/service-account.uid":` + uid + `}}}`, nil},
	}
	for name, tc := range cases {
		for _, policy := range []v1alpha1.ControllerFieldsPolicy{v1alpha1.ControllerFieldsIgnore, v1alpha1.ControllerFieldsRevert} {
			t.Run(name+string(policy), func(t *testing.T) {
				t.Parallel()
				obj := manifest.Object{Unstructured: fixture.UnstructuredOf(t, tc.object)}
				d, err := newObject(object.SignatureOf(v1alpha1.Installation(""), "a"), "", obj, cluster.Mapping{}, rules{controllers: policy == v1alpha1.ControllerFieldsIgnore, steps: new(maxIgnoreSteps)})
				require.NoError(t, err)
				for _, path := range tc.dropped {
					tokens := strings.SplitN(path, ".", 3)
					_, applied, err := unstructured.NestedFieldNoCopy(d.Unstructured().Object, tokens...)
					require.NoError(t, err)
					require.Equal(t, policy == v1alpha1.ControllerFieldsRevert, applied, tc.reason)
					require.Equal(t, policy == v1alpha1.ControllerFieldsIgnore, d.Rules.Exemptions.Controlled(tokens), tc.reason)
				}
				require.False(t, d.Rules.Ignored, "nothing has to be released")
				require.Equal(t, policy == v1alpha1.ControllerFieldsRevert || tc.dropped == nil, strings.Contains(string(d.Body), "1111") || strings.Contains(string(d.Body), "bind-completed"), tc.reason)
			})
		}
	}
}
