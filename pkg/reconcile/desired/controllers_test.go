package desired

import (
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
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
				ignored, _ := ignoredIn(rules.of(obj), obj)
				require.Equal(t, want, ignored != nil, tc.reason)
				require.Empty(t, rules.unmatched())
			}
		})
	}
}
