package trigger

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// sample is a kind of object as the API server returns it after Vidra applied
// it. In text, %[1]s stands for the name, %[2]s for the namespace, %[3]s for the
// UID, %[4]s for the resourceVersion, %[5]s for the owner and %[6]s for a value
// that is ours.
type sample struct {
	gvr  schema.GroupVersionResource
	text string
}

// encoded is the object number i of an owner, with a value at a resourceVersion.
func (s sample) encoded(i int, owner Owner, value, version string) []byte {
	key := s.key(i)
	return fmt.Appendf(nil, s.text, key.Name, key.Namespace, uidOf(i), version, owner.Name, value)
}

// decoded is the same object as a client of the API server gets it.
func (s sample) decoded(t testing.TB, i int, owner Owner, value, version string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	require.NoError(t, u.UnmarshalJSON(s.encoded(i, owner, value, version)))
	return u
}

// key is that of the object number i.
func (s sample) key(i int) ObjectKey {
	return ObjectKey{GVR: s.gvr, Namespace: fmt.Sprintf("team-%d", i%20), Name: fmt.Sprintf("settings-%05d", i)}
}

// applied is what an apply of the object left behind.
func (s sample) applied(t testing.TB, i int, owner Owner, value, version string) Applied {
	t.Helper()
	manager := v1alpha1.FieldManager(owner.Name)
	digest, recorded := ownership.Of(s.decoded(t, i, owner, value, version), manager)
	require.True(t, recorded)
	return Applied{Manager: manager, Digest: digest, UID: types.UID(uidOf(i)), ResourceVersion: version}
}

func uidOf(i int) string { return fmt.Sprintf("6f1c2a52-9a0e-4b7c-8d1d-%012x", i) }

// smallConfigMap is the smallest object that Vidra can apply.
var smallConfigMap = sample{gvr: configMaps, text: `{"apiVersion":"v1","data":{"color":"%[6]s"},"kind":"ConfigMap","metadata":{
"annotations":{"owner.vidraresource.infrahub.operators.com/%[5]s":"%[5]s"},
"creationTimestamp":"2026-01-02T03:04:05Z","labels":{"managed-by":"vidra"},
"managedFields":[{"apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:color":{}},
"f:metadata":{"f:annotations":{"f:owner.vidraresource.infrahub.operators.com/%[5]s":{}},"f:labels":{"f:managed-by":{}}}},
"manager":"vidra/%[5]s","operation":"Apply","time":"2026-01-02T03:04:05Z"}],
"name":"%[1]s","namespace":"%[2]s","resourceVersion":"%[4]s","uid":"%[3]s"}}`}

// talkativeWidget is a custom resource that says of itself, in ten conditions, why it
// is not ready.
var talkativeWidget = sample{
	gvr: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"},
	text: strings.NewReplacer(`"v1","data"`, `"example.com/v1","data"`, `ConfigMap`, `Widget`, `"uid":"%[3]s"}}`,
		`"generation":4,"uid":"%[3]s"},"status":{"conditions":[`+strings.Repeat(`{"lastTransitionTime":"2026-01-02T03:05:00Z",
"message":"A part of it is as it should be.","observedGeneration":4,"reason":"AsWanted","status":"True","type":"PartReady"},`, 9)+
			`{"lastTransitionTime":"2026-01-02T03:05:00Z","message":"waits for the paint of %[1]s to dry","observedGeneration":4,
"reason":"Wet","status":"False","type":"Ready"}],"observedGeneration":4}}`).Replace(smallConfigMap.text),
}

// fullDeployment has about 40 fields that Vidra owns, and what a controller
// wrote beside them.
var fullDeployment = sample{
	gvr: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"},
	text: `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{
"annotations":{"deployment.kubernetes.io/revision":"3","owner.vidraresource.infrahub.operators.com/%[5]s":"%[5]s"},
"creationTimestamp":"2026-01-02T03:04:05Z","generation":4,
"labels":{"app":"%[1]s","app.kubernetes.io/name":"shop","app.kubernetes.io/version":"1.2.3","managed-by":"vidra"},
"managedFields":[{"apiVersion":"apps/v1","fieldsType":"FieldsV1","fieldsV1":{
"f:metadata":{"f:annotations":{"f:owner.vidraresource.infrahub.operators.com/%[5]s":{}},
"f:labels":{"f:app":{},"f:app.kubernetes.io/name":{},"f:app.kubernetes.io/version":{},"f:managed-by":{}}},
"f:spec":{"f:minReadySeconds":{},"f:progressDeadlineSeconds":{},"f:replicas":{},"f:revisionHistoryLimit":{},"f:selector":{},
"f:strategy":{"f:rollingUpdate":{"f:maxSurge":{},"f:maxUnavailable":{}},"f:type":{}},
"f:template":{"f:metadata":{"f:labels":{"f:app":{},"f:tier":{}}},
"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:args":{},
"f:env":{"k:{\"name\":\"COLOR\"}":{".":{},"f:name":{},"f:value":{}},"k:{\"name\":\"MODE\"}":{".":{},"f:name":{},"f:value":{}}},
"f:image":{},"f:imagePullPolicy":{},
"f:livenessProbe":{"f:httpGet":{"f:path":{},"f:port":{}},"f:periodSeconds":{}},"f:name":{},
"f:ports":{"k:{\"containerPort\":8080,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{},"f:name":{}}},
"f:readinessProbe":{"f:httpGet":{"f:path":{},"f:port":{}}},
"f:resources":{"f:limits":{"f:cpu":{},"f:memory":{}},"f:requests":{"f:cpu":{},"f:memory":{}}},
"f:securityContext":{"f:allowPrivilegeEscalation":{},"f:readOnlyRootFilesystem":{},"f:runAsNonRoot":{}}}},
"f:serviceAccountName":{},"f:terminationGracePeriodSeconds":{}}}}},
"manager":"vidra/%[5]s","operation":"Apply","time":"2026-01-02T03:04:05Z"},
{"apiVersion":"apps/v1","fieldsType":"FieldsV1","fieldsV1":{
"f:metadata":{"f:annotations":{".":{},"f:deployment.kubernetes.io/revision":{}}},
"f:status":{"f:availableReplicas":{},"f:conditions":{".":{},"k:{\"type\":\"Available\"}":{".":{},"f:lastTransitionTime":{},
"f:lastUpdateTime":{},"f:message":{},"f:reason":{},"f:status":{},"f:type":{}}},
"f:observedGeneration":{},"f:readyReplicas":{},"f:replicas":{},"f:updatedReplicas":{}}},
"manager":"kube-controller-manager","operation":"Update","subresource":"status","time":"2026-01-02T03:05:00Z"}],
"name":"%[1]s","namespace":"%[2]s","resourceVersion":"%[4]s","uid":"%[3]s"},
"spec":{"minReadySeconds":5,"progressDeadlineSeconds":600,"replicas":2,"revisionHistoryLimit":3,
"selector":{"matchLabels":{"app":"%[1]s"}},
"strategy":{"rollingUpdate":{"maxSurge":"25%%","maxUnavailable":0},"type":"RollingUpdate"},
"template":{"metadata":{"creationTimestamp":null,"labels":{"app":"%[1]s","tier":"web"}},
"spec":{"containers":[{"args":["--verbose","--port=8080"],
"env":[{"name":"COLOR","value":"%[6]s"},{"name":"MODE","value":"production"}],
"image":"registry.example.com/shop/web:1.2.3","imagePullPolicy":"IfNotPresent",
"livenessProbe":{"failureThreshold":3,"httpGet":{"path":"/healthz","port":8080,"scheme":"HTTP"},"periodSeconds":10,
"successThreshold":1,"timeoutSeconds":1},"name":"web","ports":[{"containerPort":8080,"name":"http","protocol":"TCP"}],
"readinessProbe":{"failureThreshold":3,"httpGet":{"path":"/ready","port":8080,"scheme":"HTTP"},"periodSeconds":10,
"successThreshold":1,"timeoutSeconds":1},
"resources":{"limits":{"cpu":"500m","memory":"256Mi"},"requests":{"cpu":"100m","memory":"128Mi"}},
"securityContext":{"allowPrivilegeEscalation":false,"readOnlyRootFilesystem":true,"runAsNonRoot":true},
"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],
"dnsPolicy":"ClusterFirst","restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},
"serviceAccount":"shop","serviceAccountName":"shop","terminationGracePeriodSeconds":30}}},
"status":{"availableReplicas":2,"conditions":[{"lastTransitionTime":"2026-01-02T03:05:00Z","lastUpdateTime":"2026-01-02T03:05:00Z",
"message":"Deployment has minimum availability.","reason":"MinimumReplicasAvailable","status":"True","type":"Available"},
{"lastTransitionTime":"2026-01-02T03:04:05Z","lastUpdateTime":"2026-01-02T03:05:00Z",
"message":"ReplicaSet \"web-5d4f8b7c9\" has successfully progressed.","reason":"NewReplicaSetAvailable","status":"True","type":"Progressing"}],
"observedGeneration":4,"readyReplicas":2,"replicas":2,"updatedReplicas":2}}`,
}
