package e2e

// workloadEdits are edits of what runs Pods.
var workloadEdits = map[string]map[string]anEdit{
	"PodTemplate": {
		"image": {
			reason: "no spec, and no status", want: reverted, told: "template.spec.containers[name=\"web\"].image",
			change: change{jsonOps, `[{"op":"replace","path":"/template/spec/containers/0/image","value":"registry.invalid/web:2"}]`},
		},
		"default": {
			reason: "a field that the API server fills in", want: stays,
			change: change{merge, `{"template":{"spec":{"terminationGracePeriodSeconds":5}}}`},
		},
	},
	"Pod": {
		"image": {
			reason: "one of few fields that can be changed", want: reverted, told: "spec.containers[name=\"web\"].image",
			change: change{strategic, `{"spec":{"containers":[{"name":"web","image":"registry.invalid/web:2"}]}}`},
		},
		"label": {
			reason: "a controller would adopt it or let it go", want: reverted, told: "metadata.labels.app",
			change: change{merge, `{"metadata":{"labels":{"app":"changed"}}}`},
		},
		"deadline": {
			reason: "a field that we leave out", want: stays,
			change: change{merge, `{"spec":{"activeDeadlineSeconds":600}}`},
		},
		"status": {
			reason: "what kubelets write all the time", want: stays,
			change: change{reporting, `{"status":{"message":"hi"}}`},
		},
		"deleted": {
			reason: "there is no node that would have to agree", want: recreated,
			change: change{deletion, ""},
		},
	},
	"Deployment": {
		"replicas": {
			reason: "the edit that the first operator missed", want: reverted, told: "spec.replicas to 0; \"person\" had set it to 1",
			change: change{merge, `{"spec":{"replicas":1}}`},
		},
		"scale": {
			reason: "kubectl scale writes through a subresource", want: reverted, told: "reverted spec.replicas to 0; \"person\" had set it to 1 through scale",
			change: change{scaling, `{"spec":{"replicas":1}}`},
		},
		"replicas updated": {
			reason: "by the whole object", want: reverted, told: "spec.replicas",
			change: change{put, `{"spec":{"replicas":1}}`},
		},
		"replicas to null": {
			reason: "the API server makes it the default", want: reverted, told: "spec.replicas",
			change: change{merge, `{"spec":{"replicas":null}}`},
		},
		"image": {
			reason: "an item of a list by its name", want: reverted, told: "spec.template.spec.containers[name=\"web\"].image",
			change: change{strategic, `{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"registry.invalid/web:2"}]}}}}`},
		},
		"environment": {
			reason: "a list in a list", want: reverted, told: "containers[name=\"web\"].env[name=\"LOG\"].value",
			change: change{strategic, `{"spec":{"template":{"spec":{"containers":[{"name":"web","env":[{"name":"LOG","value":"debug"}]}]}}}}`},
		},
		"environment added": {
			reason: "a variable more", want: stays,
			change: change{strategic, `{"spec":{"template":{"spec":{"containers":[{"name":"web","env":[{"name":"EXTRA","value":"mine"}]}]}}}}`},
		},
		"argument added": {
			reason: "an atomic list", want: reverted, told: "containers[name=\"web\"].args",
			change: change{jsonOps, `[{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":"--debug"}]`},
		},
		"port name": {
			reason: "an item by a number and a text", want: reverted, told: "ports[containerPort=8080,protocol=\"TCP\"].name",
			change: change{jsonOps, `[{"op":"replace","path":"/spec/template/spec/containers/0/ports/0/name","value":"web"}]`},
		},
		"node selector": {
			reason: "an atomic map with one key more", want: reverted, told: "spec.template.spec.nodeSelector",
			change: change{merge, `{"spec":{"template":{"spec":{"nodeSelector":{"zone":"a"}}}}}`},
		},
		"toleration": {
			reason: "an atomic list of maps", want: reverted, told: "spec.template.spec.tolerations",
			change: change{jsonOps, `[{"op":"add","path":"/spec/template/spec/tolerations/-","value":{"key":"mine","operator":"Exists"}}]`},
		},
		"quantity": {
			reason: "less than it needs", want: reverted, told: "resources.requests.cpu to \"1\"; \"person\" had set it to \"100m\"",
			change: change{strategic, `{"spec":{"template":{"spec":{"containers":[{"name":"web","resources":{"requests":{"cpu":"100m"}}}]}}}}`},
		},
		"quantity in another notation": {
			reason: "1000m is 1, and 1024Mi is 1Gi", want: stays,
			change: change{strategic, `{"spec":{"template":{"spec":{"containers":[{"name":"web","resources":{"requests":{"cpu":"1000m","memory":"1024Mi"}}}]}}}}`},
		},
		"limit": {
			reason: "an autoscaler writes beside our requests", want: stays,
			change: change{strategic, `{"spec":{"template":{"spec":{"containers":[{"name":"web","resources":{"limits":{"cpu":"2"}}}]}}}}`},
		},
		"field in an empty map": {
			reason: "the manifest says resources: {}, which names no resource", want: stays,
			change: change{strategic, `{"spec":{"template":{"spec":{"containers":[{"name":"helper","resources":{"limits":{"cpu":"2"}}}]}}}}`},
		},
		"field in another empty map": {
			reason: "nor does securityContext: {} name a setting", want: stays,
			change: change{merge, `{"spec":{"template":{"spec":{"securityContext":{"runAsNonRoot":true}}}}}`},
		},
		"sidecar": {
			reason: "injected beside our containers", want: stays,
			change: change{strategic, `{"spec":{"template":{"spec":{"containers":[{"name":"sidecar","image":"registry.invalid/sidecar:1"}]}}}}`},
		},
		"container removed": {
			reason: "an item gone", want: reverted, told: "containers[name=\"helper\"] to ",
			change: change{jsonOps, `[{"op":"remove","path":"/spec/template/spec/containers/1"}]`},
		},
		"restart": {
			reason: "kubectl rollout restart writes an annotation into the template", want: stays,
			change: change{strategic, `{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"2026-01-02T03:04:05Z"}}}}}`},
		},
		"default": {
			reason: "a field that the API server fills in", want: stays,
			change: change{merge, `{"spec":{"revisionHistoryLimit":3}}`},
		},
		"default of a list item": {
			reason: "an item of ours, an unmanaged field", want: stays,
			change: change{strategic, `{"spec":{"template":{"spec":{"containers":[{"name":"web","imagePullPolicy":"Always"}]}}}}`},
		},
		"foreign annotation": {
			reason: "it bumps the generation", want: stays,
			change: change{merge, `{"metadata":{"annotations":{"example.com/note":"hi"}}}`},
		},
		"status": {
			reason: "most events are about it", want: stays,
			change: change{reporting, `{"status":{"conditions":[{"type":"Tested","status":"True","reason":"E2E"}]}}`},
		},
		"replicas through an update of the status": {
			reason: "the API server ignores all but the status", want: stays,
			change: change{reporting, `{"spec":{"replicas":1}}`},
		},
		"scale to what it is": {
			reason: "nothing changes", want: stays,
			change: change{scaling, `{"spec":{"replicas":0}}`},
		},
		"our label": {
			reason: "the watch sees it no more", want: relabelled,
			change: change{merge, `{"metadata":{"labels":{"managed-by":null}}}`},
		},
		"deleted": {
			reason: "the edit that the first operator missed most", want: recreated,
			change: change{deletion, ""},
		},
	},
	"StatefulSet": {
		"scale": {
			reason: "kubectl scale", want: reverted, told: "spec.replicas to 0; \"person\" had set it to 1",
			change: change{scaling, `{"spec":{"replicas":1}}`},
		},
		"image": {
			reason: "an item of a list by its name", want: reverted, told: "spec.template.spec.containers[name=\"web\"].image",
			change: change{jsonOps, `[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"registry.invalid/web:2"}]`},
		},
		"default": {
			reason: "a field that the API server fills in", want: stays,
			change: change{merge, `{"spec":{"updateStrategy":{"type":"OnDelete","rollingUpdate":null}}}`},
		},
		"deleted": {
			reason: "nothing is left of it", want: recreated,
			change: change{deletion, ""},
		},
	},
	"DaemonSet": {
		"number or text": {
			reason: "a number made a share", want: reverted, told: "spec.updateStrategy.rollingUpdate.maxUnavailable to 1; \"person\" had set it to \"10%\"",
			change: change{merge, `{"spec":{"updateStrategy":{"rollingUpdate":{"maxUnavailable":"10%"}}}}`},
		},
		"default": {
			reason: "the other field of the same map", want: stays,
			change: change{merge, `{"spec":{"minReadySeconds":5}}`},
		},
		"template label": {
			reason: "foreign labels of Pods", want: stays,
			change: change{merge, `{"spec":{"template":{"metadata":{"labels":{"extra":"mine"}}}}}`},
		},
	},
	"ReplicaSet without replicas": {
		"scale": {
			reason: "the autoscaler's, as the manifest leaves it out", want: stays,
			change: change{scaling, `{"spec":{"replicas":0}}`},
		},
		"replicas": {
			reason: "and anybody else's", want: stays,
			change: change{merge, `{"spec":{"replicas":0}}`},
		},
		"our field": {
			reason: "what is in the manifest is still ours", want: reverted, told: "spec.minReadySeconds to 3; \"person\" had set it to 5",
			change: change{merge, `{"spec":{"minReadySeconds":5}}`},
		},
	},
	"Job": {
		"parallelism": {
			reason: "one of few fields that can be changed", want: reverted, told: "spec.parallelism",
			change: change{merge, `{"spec":{"parallelism":2}}`},
		},
		"resumed": {
			reason: "it would run", want: reverted, told: "spec.suspend",
			change: change{merge, `{"spec":{"suspend":false}}`},
		},
		"deadline": {
			reason: "a field that we leave out", want: stays,
			change: change{merge, `{"spec":{"activeDeadlineSeconds":600}}`},
		},
		"deleted": {
			reason: "nothing is left of it", want: recreated,
			change: change{deletion, ""},
		},
	},
	"CronJob": {
		"schedule": {
			reason: "a text", want: reverted, told: "spec.schedule",
			change: change{merge, `{"spec":{"schedule":"0 0 2 1 *"}}`},
		},
		"default": {
			reason: "a field that the API server fills in", want: stays,
			change: change{merge, `{"spec":{"concurrencyPolicy":"Forbid"}}`},
		},
		"status": {
			reason: "what the controller notes", want: stays,
			change: change{reporting, `{"status":{"lastScheduleTime":"2026-01-02T03:04:05Z"}}`},
		},
	},
}
