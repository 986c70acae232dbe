package e2e

import "strings"

// structuralWorkloads are structural edits of what runs Pods.
var structuralWorkloads = map[string]map[string]structuralEdit{
	"Deployment of many parts": inTemplate("/spec/template", map[string]structuralEdit{
		"container renamed": {
			reason: "an item of a list goes, another one comes", every: true,
			ops:     `[{"op":"replace","path":"<pod>/containers/1/name","value":"sidecar"}]`,
			removed: []string{`containers[name="helper"]`}, added: []string{`containers[name="sidecar"]`},
		},
		"first container renamed": {
			reason:  "with all that is in it",
			ops:     `[{"op":"replace","path":"<pod>/containers/0/name","value":"server"}]`,
			removed: []string{`containers[name="web"]`}, added: []string{`containers[name="server"]`},
		},
		"container replaced": {
			reason:  "the other one stands somewhere else",
			ops:     `[{"op":"remove","path":"<pod>/containers/1"},{"op":"add","path":"<pod>/containers/0","value":{"name":"sidecar","image":"registry.invalid/sidecar:1"}}]`,
			removed: []string{`containers[name="helper"]`}, added: []string{`containers[name="sidecar"]`},
		},
		"init container renamed": {
			reason:  "a list beside",
			ops:     `[{"op":"replace","path":"<pod>/initContainers/0/name","value":"begin"}]`,
			removed: []string{`initContainers[name="prepare"]`}, added: []string{`initContainers[name="begin"]`},
		},
		"emptyDir to hostPath": {
			reason: "a volume has one type: the manifest alone would be refused", every: true,
			ops:     `[{"op":"remove","path":"<pod>/volumes/0/emptyDir"},{"op":"add","path":"<pod>/volumes/0/hostPath","value":{"path":"/"}}]`,
			removed: []string{`volumes[name="scratch"].emptyDir`}, added: []string{`volumes[name="scratch"].hostPath`},
		},
		"configMap to Secret": {
			reason:  "two types with fields",
			ops:     `[{"op":"remove","path":"<pod>/volumes/1/configMap"},{"op":"add","path":"<pod>/volumes/1/secret","value":{"secretName":"settings"}}]`,
			removed: []string{`volumes[name="settings"].configMap`}, added: []string{`volumes[name="settings"].secret`},
		},
		"claim to NFS": {
			reason:  "data that lies elsewhere",
			ops:     `[{"op":"remove","path":"<pod>/volumes/3/persistentVolumeClaim"},{"op":"add","path":"<pod>/volumes/3/nfs","value":{"server":"none.example.com","path":"/"}}]`,
			removed: []string{`volumes[name="data"].persistentVolumeClaim`}, added: []string{`volumes[name="data"].nfs`},
		},
		"projected source": {
			reason: "an atomic list, whose item is a union", value: true,
			ops:     `[{"op":"replace","path":"<pod>/volumes/2/projected/sources/0","value":{"secret":{"name":"settings"}}}]`,
			removed: []string{`volumes[name="tokens"].projected.sources`},
		},
		"volume renamed": {
			reason:  "with the mount that refers to it",
			ops:     `[{"op":"replace","path":"<pod>/volumes/0/name","value":"temp"},{"op":"replace","path":"<pod>/containers/0/volumeMounts/0/name","value":"temp"}]`,
			removed: []string{`volumes[name="scratch"]`}, added: []string{`volumes[name="temp"]`},
		},
		"mount moved": {
			reason:  "the key is a path",
			ops:     `[{"op":"replace","path":"<pod>/containers/0/volumeMounts/0/mountPath","value":"/other"}]`,
			removed: []string{`volumeMounts[mountPath="/scratch"]`}, added: []string{`volumeMounts[mountPath="/other"]`},
		},
		"httpGet to exec": {
			reason: "a probe has one type", every: true,
			ops:     `[{"op":"remove","path":"<pod>/containers/0/livenessProbe/httpGet"},{"op":"add","path":"<pod>/containers/0/livenessProbe/exec","value":{"command":["true"]}}]`,
			removed: []string{`livenessProbe.httpGet`}, added: []string{`livenessProbe.exec`},
		},
		"exec to tcpSocket": {
			reason:  "an atomic list goes",
			ops:     `[{"op":"remove","path":"<pod>/containers/0/readinessProbe/exec"},{"op":"add","path":"<pod>/containers/0/readinessProbe/tcpSocket","value":{"port":8080}}]`,
			removed: []string{`readinessProbe.exec`}, added: []string{`readinessProbe.tcpSocket`},
		},
		"tcpSocket to grpc": {
			reason:  "one with a default",
			ops:     `[{"op":"remove","path":"<pod>/containers/0/startupProbe/tcpSocket"},{"op":"add","path":"<pod>/containers/0/startupProbe/grpc","value":{"port":9090}}]`,
			removed: []string{`startupProbe.tcpSocket`}, added: []string{`startupProbe.grpc`},
		},
		"lifecycle handlers": {
			reason: "two unions in one edit",
			ops: `[{"op":"remove","path":"<pod>/containers/0/lifecycle/preStop/exec"},{"op":"add","path":"<pod>/containers/0/lifecycle/preStop/sleep","value":{"seconds":1}},
				{"op":"remove","path":"<pod>/containers/0/lifecycle/postStart/httpGet"},{"op":"add","path":"<pod>/containers/0/lifecycle/postStart/exec","value":{"command":["true"]}}]`,
			removed: []string{`preStop.exec`, `postStart.httpGet`}, added: []string{`preStop.sleep`, `postStart.exec`},
		},
		"value to valueFrom": {
			reason: "a variable has one source", every: true,
			ops:     `[{"op":"remove","path":"<pod>/containers/0/env/0/value"},{"op":"add","path":"<pod>/containers/0/env/0/valueFrom","value":{"secretKeyRef":{"name":"a","key":"b"}}}]`,
			removed: []string{`env[name="LOG"].value `}, added: []string{`env[name="LOG"].valueFrom`},
		},
		"valueFrom to value": {
			reason:  "the other way round",
			ops:     `[{"op":"remove","path":"<pod>/containers/0/env/1/valueFrom"},{"op":"add","path":"<pod>/containers/0/env/1/value","value":"a"}]`,
			removed: []string{`env[name="NODE"].valueFrom`}, added: []string{`env[name="NODE"].value `},
		},
		"another valueFrom": {
			reason:  "a union in a union",
			ops:     `[{"op":"remove","path":"<pod>/containers/0/env/1/valueFrom/fieldRef"},{"op":"add","path":"<pod>/containers/0/env/1/valueFrom/configMapKeyRef","value":{"name":"a","key":"b"}}]`,
			removed: []string{`valueFrom.fieldRef`}, added: []string{`valueFrom.configMapKeyRef`},
		},
		"variable renamed": {
			reason:  "a list in a list",
			ops:     `[{"op":"replace","path":"<pod>/containers/0/env/0/name","value":"LEVEL"}]`,
			removed: []string{`env[name="LOG"]`}, added: []string{`env[name="LEVEL"]`},
		},
		"envFrom": {
			reason: "an atomic list", value: true,
			ops:     `[{"op":"replace","path":"<pod>/containers/0/envFrom/0","value":{"secretRef":{"name":"settings"}}}]`,
			removed: []string{`envFrom`},
		},
		"port renumbered": {
			reason: "two keys, the first changes", every: true,
			ops:     `[{"op":"replace","path":"<pod>/containers/0/ports/0/containerPort","value":8081}]`,
			removed: []string{`ports[containerPort=8080,protocol="TCP"]`}, added: []string{`ports[containerPort=8081,protocol="TCP"]`},
		},
		"protocol of a port": {
			reason: "two keys, the second changes", except: "kubectl-edit", // which finds ports by their number alone
			ops:     `[{"op":"replace","path":"<pod>/containers/0/ports/1/protocol","value":"TCP"}]`,
			removed: []string{`ports[containerPort=53,protocol="UDP"]`}, added: []string{`ports[containerPort=53,protocol="TCP"]`},
		},
		"request renamed": {
			reason:  "a map of quantities",
			ops:     `[{"op":"remove","path":"<pod>/containers/0/resources/requests/cpu"},{"op":"add","path":"<pod>/containers/0/resources/requests/memory","value":"1Gi"}]`,
			removed: []string{`resources.requests.cpu`}, added: []string{`resources.requests.memory`},
		},
		"pull Secret renamed": {
			reason:  "items with nothing but a key",
			ops:     `[{"op":"replace","path":"<pod>/imagePullSecrets/0/name","value":"other"}]`,
			removed: []string{`imagePullSecrets[name="registry"]`}, added: []string{`imagePullSecrets[name="other"]`},
		},
		"pull Secret without a name": {
			reason: "a key whose default is empty, which the API server leaves out", every: true, except: "kubectl-edit", // which finds items by that key
			ops:     `[{"op":"remove","path":"<pod>/imagePullSecrets/0/name"},{"op":"remove","path":"<pod>/containers/0/securityContext"}]`,
			removed: []string{`imagePullSecrets[name="registry"]`}, added: []string{`imagePullSecrets[name=""]`},
		},
		"port without a protocol": {
			reason: "a key whose default is not empty", except: "kubectl-edit", // which finds ports by their number alone
			ops:     `[{"op":"remove","path":"<pod>/containers/0/ports/1/protocol"}]`,
			removed: []string{`ports[containerPort=53,protocol="UDP"]`}, added: []string{`ports[containerPort=53,protocol="TCP"]`},
		},
		"host alias": {
			reason:  "the key is an address",
			ops:     `[{"op":"replace","path":"<pod>/hostAliases/0/ip","value":"192.0.2.2"}]`,
			removed: []string{`hostAliases[ip="192.0.2.1"]`}, added: []string{`hostAliases[ip="192.0.2.2"]`},
		},
		"topology spread": {
			reason: "two keys of text", except: "kubectl-edit", // which finds constraints by their topology alone
			ops:     `[{"op":"replace","path":"<pod>/topologySpreadConstraints/0/whenUnsatisfiable","value":"DoNotSchedule"}]`,
			removed: []string{`whenUnsatisfiable="ScheduleAnyway"]`}, added: []string{`whenUnsatisfiable="DoNotSchedule"]`},
		},
		"affinity": {
			reason:  "from Nodes to Pods",
			ops:     `[{"op":"remove","path":"<pod>/affinity/nodeAffinity"},{"op":"add","path":"<pod>/affinity/podAffinity","value":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"zone"}]}}]`,
			removed: []string{`affinity.nodeAffinity`}, added: []string{`affinity.podAffinity`},
		},
		"capabilities": {
			reason:  "from drop to add",
			ops:     `[{"op":"remove","path":"<pod>/containers/0/securityContext/capabilities/drop"},{"op":"add","path":"<pod>/containers/0/securityContext/capabilities/add","value":["NET_ADMIN"]}]`,
			removed: []string{`capabilities.drop`}, added: []string{`capabilities.add`},
		},
		"security context": {
			reason:  "the whole map is replaced",
			ops:     `[{"op":"replace","path":"<pod>/containers/0/securityContext","value":{"privileged":true}}]`,
			removed: []string{`securityContext.capabilities`}, added: []string{`securityContext.privileged`},
		},
		"seccomp profile": {
			reason: "a value changes, and another field comes that goes with it alone", refused: true,
			ops:     `[{"op":"replace","path":"<pod>/securityContext/seccompProfile","value":{"type":"Localhost","localhostProfile":"a.json"}}]`,
			removed: []string{`seccompProfile.type`}, added: []string{`seccompProfile.localhostProfile`},
		},
		"strategy": {
			reason: "a value changes, and what goes with it is removed", value: true,
			ops:     `[{"op":"replace","path":"/spec/strategy","value":{"type":"Recreate"}}]`,
			removed: []string{`spec.strategy.type`},
		},
		"labels renamed": {
			reason:  "of the object, and of its Pods",
			ops:     `[{"op":"move","from":"/metadata/labels/tier","path":"/metadata/labels/level"},{"op":"move","from":"/spec/template/metadata/labels/tier","path":"/spec/template/metadata/labels/level"}]`,
			removed: []string{`metadata.labels.tier`, `spec.template.metadata.labels.tier`}, added: []string{`metadata.labels.level`, `spec.template.metadata.labels.level`},
		},
		"annotations renamed": {
			reason:  "of the object, and of its Pods",
			ops:     `[{"op":"move","from":"/metadata/annotations/example.com~1team","path":"/metadata/annotations/example.com~1group"},{"op":"move","from":"/spec/template/metadata/annotations/example.com~1team","path":"/spec/template/metadata/annotations/example.com~1group"}]`,
			removed: []string{`metadata.annotations["example.com/team"]`, `spec.template.metadata.annotations["example.com/team"]`},
			added:   []string{`metadata.annotations["example.com/group"]`, `spec.template.metadata.annotations["example.com/group"]`},
		},
		"much at once": {
			reason: "one edit in five places", every: true,
			ops: `[{"op":"replace","path":"<pod>/containers/1/name","value":"sidecar"},
				{"op":"remove","path":"<pod>/volumes/0/emptyDir"},{"op":"add","path":"<pod>/volumes/0/hostPath","value":{"path":"/"}},
				{"op":"replace","path":"<pod>/containers/0/ports/0/containerPort","value":8081},
				{"op":"replace","path":"<pod>/containers/0/image","value":"registry.invalid/web:2"},
				{"op":"move","from":"/metadata/labels/tier","path":"/metadata/labels/level"}]`,
			removed: []string{`metadata.labels.tier`}, added: []string{`metadata.labels.level`},
		},
	}),
	"Deployment without replicas": {
		"variable twice": {
			reason: "the API server takes two items of one key, and the last one wins", value: true, except: "kubectl-edit", // which merges them
			ops:     `[{"op":"add","path":"/spec/template/spec/containers/0/env/-","value":{"name":"LOG","value":"debug"}}]`,
			removed: []string{`env[name="LOG"]`},
		},
	},
	claiming: {
		"claims renamed": {
			reason: "lists that refer to each other",
			ops: `[{"op":"replace","path":"/spec/template/spec/resourceClaims/0/name","value":"card"},
				{"op":"replace","path":"/spec/template/spec/containers/0/resources/claims/0/name","value":"card"}]`,
			removed: []string{`resourceClaims[name="gpu"]`, `resources.claims[name="gpu"]`}, added: []string{`resourceClaims[name="card"]`, `resources.claims[name="card"]`},
		},
	},
	"Deployment that is recreated": {
		"strategy": {
			reason: "what comes goes with the other value alone", refused: true,
			ops:     `[{"op":"replace","path":"/spec/strategy","value":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":"50%"}}}]`,
			removed: []string{`spec.strategy.type`}, added: []string{`spec.strategy.rollingUpdate`},
		},
	},
	"StatefulSet of many parts": inTemplate("/spec/template", map[string]structuralEdit{
		"container renamed": {
			reason:  "beside templates of claims, which cannot be changed",
			ops:     `[{"op":"replace","path":"<pod>/containers/0/name","value":"server"}]`,
			removed: []string{`containers[name="web"]`}, added: []string{`containers[name="server"]`},
		},
		"update strategy": {
			reason: "a value changes, and what goes with it is removed", value: true,
			ops:     `[{"op":"replace","path":"/spec/updateStrategy","value":{"type":"OnDelete"}}]`,
			removed: []string{`spec.updateStrategy.type`},
		},
	}),
	"DaemonSet": inTemplate("/spec/template", map[string]structuralEdit{
		"update strategy": {
			reason:  "one member of a map for another",
			ops:     `[{"op":"replace","path":"/spec/updateStrategy/rollingUpdate","value":{"maxSurge":1,"maxUnavailable":0}}]`,
			removed: []string{`rollingUpdate.maxUnavailable`}, refused: true, added: []string{`rollingUpdate.maxSurge`},
		},
		"port renumbered": {
			reason:  "a port without a name",
			ops:     `[{"op":"replace","path":"<pod>/containers/0/ports/0/containerPort","value":81}]`,
			removed: []string{`ports[containerPort=80,protocol="TCP"]`}, added: []string{`ports[containerPort=81,protocol="TCP"]`},
		},
		"node selector": {
			reason: "an atomic map", value: true,
			ops:     `[{"op":"replace","path":"<pod>/nodeSelector","value":{"other":"such"}}]`,
			removed: []string{`nodeSelector`},
		},
	}),
	"CronJob": inTemplate("/spec/jobTemplate/spec/template", map[string]structuralEdit{
		"container renamed": {
			reason:  "a template in a template",
			ops:     `[{"op":"replace","path":"<pod>/containers/1/name","value":"sidecar"}]`,
			removed: []string{`containers[name="helper"]`}, added: []string{`containers[name="sidecar"]`},
		},
		"value to valueFrom": {
			reason:  "deep inside",
			ops:     `[{"op":"replace","path":"<pod>/containers/0/env/0","value":{"name":"LOG","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}}]`,
			removed: []string{`env[name="LOG"].value `}, added: []string{`env[name="LOG"].valueFrom`},
		},
		"emptyDir to hostPath": {
			reason:  "deep inside",
			ops:     `[{"op":"replace","path":"<pod>/volumes/0","value":{"name":"scratch","hostPath":{"path":"/"}}}]`,
			removed: []string{`volumes[name="scratch"].emptyDir`}, added: []string{`volumes[name="scratch"].hostPath`},
		},
		"label of Jobs": {
			reason:  "another template's metadata",
			ops:     `[{"op":"move","from":"/spec/jobTemplate/metadata/labels/app","path":"/spec/jobTemplate/metadata/labels/name"}]`,
			removed: []string{`spec.jobTemplate.metadata.labels.app`}, added: []string{`spec.jobTemplate.metadata.labels.name`},
		},
	}),
}

// inTemplate writes the edits for the Pod template at a path.
func inTemplate(path string, edits map[string]structuralEdit) map[string]structuralEdit {
	for name, e := range edits {
		e.ops = strings.ReplaceAll(e.ops, "<pod>", path+"/spec")
		edits[name] = e
	}
	return edits
}
