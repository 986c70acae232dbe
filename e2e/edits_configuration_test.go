package e2e

// configurationEdits are edits of what says how Pods and the cluster are run.
var configurationEdits = map[string]map[string]anEdit{
	"PodDisruptionBudget": {
		"number or text": {
			reason: "a number made a share", want: reverted, told: "spec.minAvailable to 1; \"person\" had set it to \"50%\"",
			change: change{merge, `{"spec":{"minAvailable":"50%"}}`},
		},
		"selector": {
			reason: "the labels in it are fields", want: reverted, told: "spec.selector",
			change: change{merge, `{"spec":{"selector":{"matchLabels":{"app":"other"}}}}`},
		},
		"policy": {
			reason: "a field that we leave out", want: stays,
			change: change{merge, `{"spec":{"unhealthyPodEvictionPolicy":"AlwaysAllow"}}`},
		},
	},
	"HorizontalPodAutoscaler": {
		"maximum": {
			reason: "a number", want: reverted, told: "spec.maxReplicas to 3; \"person\" had set it to 9",
			change: change{merge, `{"spec":{"maxReplicas":9}}`},
		},
		"metric": {
			reason: "an atomic list, deep inside", want: reverted, told: "spec.metrics",
			change: change{jsonOps, `[{"op":"replace","path":"/spec/metrics/0/resource/target/averageUtilization","value":50}]`},
		},
		"minimum": {
			reason: "a field that the API server fills in", want: stays,
			change: change{merge, `{"spec":{"minReplicas":2}}`},
		},
		"status": {
			reason: "what the controller notes", want: stays,
			change: change{reporting, `{"status":{"desiredReplicas":2,"currentReplicas":1}}`},
		},
	},
	"Lease": {
		"duration": {
			reason: "no generation", want: reverted, told: "spec.leaseDurationSeconds",
			change: change{merge, `{"spec":{"leaseDurationSeconds":60}}`},
		},
		"renewed": {
			reason: "what its holder does all the time", want: stays,
			change: change{put, `{"spec":{"holderIdentity":"me","renewTime":"2026-01-02T03:04:05.000000Z"}}`},
		},
	},
	"EndpointSlice": {
		"endpoint added": {
			reason: "an atomic list", want: reverted, told: "endpoints",
			change: change{jsonOps, `[{"op":"add","path":"/endpoints/-","value":{"addresses":["192.0.2.2"]}}]`},
		},
		"port": {
			reason: "an atomic list", want: reverted, told: "ports",
			change: change{jsonOps, `[{"op":"replace","path":"/ports/0/port","value":81}]`},
		},
	},
	"NetworkPolicy": {
		"rule added": {
			reason: "an atomic list", want: reverted, told: "spec.ingress",
			change: change{jsonOps, `[{"op":"add","path":"/spec/ingress/-","value":{"ports":[{"port":22,"protocol":"TCP"}]}}]`},
		},
		"pods": {
			reason: "an atomic selector with one label more", want: reverted, told: "spec.podSelector",
			change: change{merge, `{"spec":{"podSelector":{"matchLabels":{"tier":"front"}}}}`},
		},
		"rules removed": {
			reason: "the list as a whole", want: reverted, told: "restored spec.ingress to ",
			change: change{merge, `{"spec":{"ingress":null}}`},
		},
		"egress": {
			reason: "a field that we leave out", want: stays,
			change: change{merge, `{"spec":{"egress":[{}]}}`},
		},
	},
	"NetworkPolicy with nothing": {
		"rule added": {
			reason: "the manifest says ingress: [], which admits no client", want: reverted, told: "spec.ingress",
			change: change{merge, `{"spec":{"ingress":[{}]}}`},
		},
		"pods": {
			reason: "podSelector: {} means all of them, and is ours as a whole", want: reverted, told: "spec.podSelector",
			change: change{merge, `{"spec":{"podSelector":{"matchLabels":{"tier":"front"}}}}`},
		},
	},
	"Ingress": {
		"host added": {
			reason: "an atomic list in an atomic list", want: reverted, told: "spec.tls",
			change: change{jsonOps, `[{"op":"add","path":"/spec/tls/0/hosts/-","value":"mine.example.com"}]`},
		},
		"backend": {
			reason: "a port is a map as a whole", want: reverted, told: "spec.defaultBackend.service.port",
			change: change{merge, `{"spec":{"defaultBackend":{"service":{"port":{"number":81}}}}}`},
		},
		"rules": {
			reason: "a field that we leave out", want: stays,
			change: change{merge, `{"spec":{"rules":[{"host":"mine.example.com"}]}}`},
		},
		"status": {
			reason: "a controller reports an address", want: stays,
			change: change{reporting, `{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}}`},
		},
	},
	"Role": {
		"rule added": {
			reason: "a user grants himself more", want: reverted, told: "rules",
			change: change{jsonOps, `[{"op":"add","path":"/rules/-","value":{"apiGroups":[""],"resources":["secrets"],"verbs":["get"]}}]`},
		},
		"rules removed": {
			reason: "a user removes what is granted", want: reverted, told: "rules",
			change: change{merge, `{"rules":null}`},
		},
		"deleted": {
			reason: "nothing is left of it", want: recreated,
			change: change{deletion, ""},
		},
	},
	"RoleBinding": {
		"subject added": {
			reason: "an atomic list", want: reverted, told: "subjects",
			change: change{jsonOps, `[{"op":"add","path":"/subjects/-","value":{"kind":"User","name":"other.example.com","apiGroup":"rbac.authorization.k8s.io"}}]`},
		},
		"foreign annotation": {
			reason: "no generation", want: stays,
			change: change{merge, `{"metadata":{"annotations":{"example.com/note":"hi"}}}`},
		},
	},
	"ClusterRole": {
		"verb": {
			reason: "a list in a list", want: reverted, told: "rules",
			change: change{jsonOps, `[{"op":"add","path":"/rules/0/verbs/-","value":"list"}]`},
		},
		"our label": {
			reason: "the watch sees it no more", want: relabelled,
			change: change{merge, `{"metadata":{"labels":{"managed-by":null}}}`},
		},
		"deleted": {
			reason: "nothing is left of it", want: recreated,
			change: change{deletion, ""},
		},
	},
	"ClusterRoleBinding": {
		"subject replaced": {
			reason: "an atomic list", want: reverted, told: "subjects",
			change: change{merge, `{"subjects":[{"kind":"User","name":"other.example.com","apiGroup":"rbac.authorization.k8s.io"}]}`},
		},
		"subjects removed": {
			reason: "the list as a whole", want: reverted, told: "subjects",
			change: change{merge, `{"subjects":null}`},
		},
	},
	"IngressClass": {
		"parameters": {
			reason: "a reference", want: reverted, told: "spec.parameters.name",
			change: change{merge, `{"spec":{"parameters":{"name":"other"}}}`},
		},
		"foreign label": {
			reason: "the cluster's kinds have many owners, too", want: stays,
			change: change{merge, `{"metadata":{"labels":{"example.com/team":"web"}}}`},
		},
	},
	"StorageClass": {
		"boolean": {
			reason: "outside of any spec", want: reverted, told: "allowVolumeExpansion to false; \"person\" had set it to true",
			change: change{merge, `{"allowVolumeExpansion":true}`},
		},
		"mount option": {
			reason: "an atomic list", want: reverted, told: "mountOptions",
			change: change{jsonOps, `[{"op":"add","path":"/mountOptions/-","value":"ro"}]`},
		},
		"deleted": {
			reason: "nothing is left of it", want: recreated,
			change: change{deletion, ""},
		},
	},
	"PriorityClass": {
		"description": {
			reason: "outside of any spec", want: reverted, told: "description",
			change: change{merge, `{"description":"changed"}`},
		},
		"foreign annotation": {
			reason: "generation or not", want: stays,
			change: change{merge, `{"metadata":{"annotations":{"example.com/note":"hi"}}}`},
		},
	},
	"ValidatingWebhookConfiguration": {
		"failure policy": {
			reason: "an item of a list by its name", want: reverted, told: "webhooks[name=\"one.example.com\"].failurePolicy to \"Ignore\"; \"person\" had set it to \"Fail\"",
			change: change{jsonOps, `[{"op":"replace","path":"/webhooks/0/failurePolicy","value":"Fail"}]`},
		},
		"certificate": {
			reason: "injected into an item of ours", want: stays,
			change: change{strategic, `{"webhooks":[{"name":"one.example.com","clientConfig":{"caBundle":"<ca>"}}]}`},
		},
		"selector": {
			reason: "a default of an item of ours", want: stays,
			change: change{strategic, `{"webhooks":[{"name":"one.example.com","namespaceSelector":{"matchLabels":{"none":"such"}}}]}`},
		},
	},
	"ValidatingAdmissionPolicy": {
		"validation": {
			reason: "an atomic list", want: reverted, told: "spec.validations",
			change: change{jsonOps, `[{"op":"add","path":"/spec/validations/-","value":{"expression":"1 == 1"}}]`},
		},
		"failure policy": {
			reason: "a text", want: reverted, told: "spec.failurePolicy",
			change: change{merge, `{"spec":{"failurePolicy":"Fail"}}`},
		},
	},
	"PersistentVolume": {
		"reclaim policy": {
			reason: "no generation", want: reverted, told: "spec.persistentVolumeReclaimPolicy",
			change: change{merge, `{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`},
		},
		"mount option": {
			reason: "an atomic list of ours with one item more", want: reverted, told: "spec.mountOptions",
			change: change{jsonOps, `[{"op":"add","path":"/spec/mountOptions/-","value":"ro"}]`},
		},
		"capacity": {
			reason: "a quantity", want: reverted, told: "spec.capacity.storage to \"1Gi\"; \"person\" had set it to \"2Gi\"",
			change: change{put, `{"spec":{"capacity":{"storage":"2Gi"}}}`},
		},
		"capacity in another notation": {
			reason: "1024Mi is 1Gi", want: stays,
			change: change{put, `{"spec":{"capacity":{"storage":"1024Mi"}}}`},
		},
		"capacity as a plain number": {
			reason: "as much, but the API server writes it so, and notes a new owner", want: reverted, told: "spec.capacity.storage to \"1Gi\"; \"person\" had set it to \"1073741824\"",
			change: change{put, `{"spec":{"capacity":{"storage":"1073741824"}}}`},
		},
		"status": {
			reason: "the phase is the controller's", want: stays,
			change: change{reporting, `{"status":{"message":"hi"}}`},
		},
		"deleted": {
			reason: "a finalizer holds it for a moment", want: recreated,
			change: change{deletion, ""},
		},
	},
	"ResourceQuota": {
		"quantity": {
			reason: "a map of quantities", want: reverted, told: "spec.hard.pods",
			change: change{merge, `{"spec":{"hard":{"pods":"20"}}}`},
		},
		"quantity in another notation": {
			reason: "2048Mi is 2Gi", want: stays,
			change: change{merge, `{"spec":{"hard":{"limits.memory":"2048Mi"}}}`},
		},
		"a limit more": {
			reason: "it is not ours", want: stays,
			change: change{merge, `{"spec":{"hard":{"secrets":"100"}}}`},
		},
		"name with a dot": {
			reason: "the path is written so that it can be read", want: reverted, told: "restored spec.hard[\"limits.memory\"] to ",
			change: change{jsonOps, `[{"op":"remove","path":"/spec/hard/limits.memory"}]`},
		},
	},
	"LimitRange": {
		"number in another notation": {
			reason: "the manifest says 0.5, the API server 500m", want: stays,
			change: change{merge, `{"spec":{"limits":[{"type":"Container","max":{"cpu":"500m"}}]}}`},
		},
		"maximum": {
			reason: "in an atomic list", want: reverted, told: "spec.limits",
			change: change{jsonOps, `[{"op":"replace","path":"/spec/limits/0/max/cpu","value":"2"}]`},
		},
		"item added": {
			reason: "an atomic list of ours", want: reverted, told: "spec.limits",
			change: change{jsonOps, `[{"op":"add","path":"/spec/limits/-","value":{"type":"Pod","max":{"cpu":"2"}}}]`},
		},
	},
}
