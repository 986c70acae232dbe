package ending

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func TestSucceeded(t *testing.T) {
	const complete = "\nstatus: {conditions: [{type: Complete, status: 'True'}]}"
	job := "apiVersion: batch/v1\nkind: Job\n"
	cases := map[string]struct {
		reason, object   string
		removes, success bool
	}{
		"Job":            {"The TTL controller removes it.", job + "spec: {ttlSecondsAfterFinished: 0}" + complete, true, true},
		"JobWithoutTTL":  {"Only a user removes it.", job + "spec: {}" + complete, false, false},
		"JobRunning":     {"A deletion is an edit.", job + "spec: {ttlSecondsAfterFinished: 9}\nstatus: {active: 1}", true, false},
		"JobFailed":      {"A failed one runs again.", job + "spec: {ttlSecondsAfterFinished: 9}\nstatus: {conditions: [{type: Failed, status: 'True'}]}", true, false},
		"JobNotComplete": {"The condition is False.", job + "spec: {ttlSecondsAfterFinished: 9}\nstatus: {conditions: [{type: Complete, status: 'False'}]}", true, false},
		"Pod":            {"podgc removes it.", "apiVersion: v1\nkind: Pod\nspec: {restartPolicy: Never}\nstatus: {phase: Succeeded}", true, true},
		"PodFailed":      {"It did not succeed.", "apiVersion: v1\nkind: Pod\nspec: {restartPolicy: OnFailure}\nstatus: {phase: Failed}", true, false},
		"Workflow":       {"Argo Workflows.", "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nstatus: {phase: Succeeded}", true, true},
		"TaskRun":        {"Tekton.", "apiVersion: tekton.dev/v1\nkind: TaskRun\nstatus: {conditions: [{type: Succeeded, status: 'True'}]}", true, true},
		"TaskRunFailed":  {"Tekton.", "apiVersion: tekton.dev/v1\nkind: TaskRun\nstatus: {conditions: [{type: Succeeded, status: 'False'}]}", true, false},
		"Order":          {"cert-manager.", "apiVersion: acme.cert-manager.io/v1\nkind: Order\nstatus: {state: valid}", true, true},
		"SparkApplication": {
			"Its state is nested.", "apiVersion: sparkoperator.k8s.io/v1beta2\nkind: SparkApplication\nspec: {timeToLiveSeconds: 60}\nstatus: {applicationState: {state: COMPLETED}}", true, true,
		},
		"Annotation": {
			"It covers unknown kinds.", "apiVersion: example.com/v1\nkind: Run\nmetadata: {annotations: {vidraresource.infrahub.operators.com/run-once: 'true'}}\nstatus: {phase: Completed}", true, true,
		},
		"Off": {
			"The annotation turns it off.", job + "metadata: {annotations: {vidraresource.infrahub.operators.com/run-once: 'false'}}\nspec: {ttlSecondsAfterFinished: 0}" + complete, false, false,
		},
		"PodServes":   {"It is restarted without end.", "apiVersion: v1\nkind: Pod\nspec: {containers: []}\nstatus: {phase: Running}", false, false},
		"Backup":      {"Velero.", "apiVersion: velero.io/v1\nkind: Backup\nspec: {ttl: 720h}\nstatus: {phase: Completed}", true, true},
		"Signed":      {"The cleaner of Kubernetes removes it.", "apiVersion: certificates.k8s.io/v1\nkind: CertificateSigningRequest\nstatus: {certificate: TFMwdA==, conditions: [{type: Approved, status: 'True'}]}", true, true},
		"Approved":    {"It waits for its certificate.", "apiVersion: certificates.k8s.io/v1\nkind: CertificateSigningRequest\nstatus: {conditions: [{type: Approved, status: 'True'}]}", true, false},
		"DataVolume":  {"KubeVirt.", "apiVersion: cdi.kubevirt.io/v1beta1\nkind: DataVolume\nstatus: {phase: Succeeded}", true, true},
		"Record":      {"The ttl of a DNS record is another one.", "apiVersion: example.com/v1\nkind: Record\nspec: {ttl: 300}\nstatus: {state: valid}", false, false},
		"Deployment":  {"It never ends.", "apiVersion: apps/v1\nkind: Deployment\nstatus: {conditions: [{type: Available, status: 'True'}]}", false, false},
		"Malformed":   {"Any cluster may send it.", "apiVersion: v1\nkind: Pod\nspec: {restartPolicy: Never}\nstatus: {phase: 3, conditions: [7]}", true, false},
		"NoStatus":    {"Nothing is known.", job + "spec: {ttlSecondsAfterFinished: 0}", true, false},
		"StatusText":  {"Any cluster may send it.", job + "spec: {ttlSecondsAfterFinished: 0}\nstatus: done", true, false},
		"NestedState": {"A state that is a map.", "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nspec: {ttlSecondsAfterFinished: 1}\nstatus: {state: {phase: Completed}}", true, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			u := &unstructured.Unstructured{}
			require.NoError(t, yaml.Unmarshal([]byte(tc.object), &u.Object))
			require.Equal(t, tc.removes, RemovesItself(u), tc.reason)
			require.Equal(t, tc.success, Succeeded(u), tc.reason)
		})
	}
}
