package e2e

// structuralServices are structural edits of what leads to Pods.
var structuralServices = map[string]map[string]structuralEdit{
	"Service of many ports": {
		"port renumbered": {
			reason: "two keys, the first changes", every: true,
			ops:     `[{"op":"replace","path":"/spec/ports/0/port","value":8080}]`,
			removed: []string{`spec.ports[port=80,protocol="TCP"]`}, added: []string{`spec.ports[port=8080,protocol="TCP"]`},
		},
		"protocol of a port": {
			reason: "two keys, the second changes", except: "kubectl-edit", // which finds ports by their number alone
			ops:     `[{"op":"replace","path":"/spec/ports/0/protocol","value":"UDP"}]`,
			removed: []string{`spec.ports[port=80,protocol="TCP"]`}, added: []string{`spec.ports[port=80,protocol="UDP"]`},
		},
		"ports replaced": {
			reason: "all of them by one of the same name", except: "kubectl-edit",
			ops:     `[{"op":"replace","path":"/spec/ports","value":[{"name":"http","port":8080}]}]`,
			removed: []string{`spec.ports[port=80,protocol="TCP"]`, `spec.ports[port=53,protocol="UDP"]`}, added: []string{`spec.ports[port=8080,protocol="TCP"]`},
		},
		"type": {
			reason: "a value, with which the API server drops what came along", value: true,
			ops:     `[{"op":"replace","path":"/spec/type","value":"NodePort"}]`,
			removed: []string{`spec.type`},
		},
		"selector": {
			reason: "an atomic map", value: true,
			ops:     `[{"op":"replace","path":"/spec/selector","value":{"other":"web"}}]`,
			removed: []string{`spec.selector`},
		},
	},
	"Service with a node port": {
		"port renumbered": {
			reason:  "the node port goes with it",
			ops:     `[{"op":"replace","path":"/spec/ports/0/port","value":8080}]`,
			removed: []string{`spec.ports[port=80,protocol="TCP"]`}, added: []string{`spec.ports[port=8080,protocol="TCP"]`},
		},
	},
	"Service of another name": {
		"type": {
			reason:  "from a name to ports",
			ops:     `[{"op":"replace","path":"/spec","value":{"type":"ClusterIP","ports":[{"port":80}]}}]`,
			removed: []string{`spec.externalName`}, added: []string{`spec.ports`},
		},
	},
	"Service without affinity": {
		"affinity": {
			reason: "a value, with which the API server drops what came along", value: true,
			ops:     `[{"op":"replace","path":"/spec/sessionAffinity","value":"ClientIP"},{"op":"add","path":"/spec/sessionAffinityConfig","value":{"clientIP":{"timeoutSeconds":60}}}]`,
			removed: []string{`spec.sessionAffinity`},
		},
	},
	"Ingress of many parts": {
		"service to resource": {
			reason: "a backend has one type", every: true,
			ops:     `[{"op":"replace","path":"/spec/defaultBackend","value":{"resource":{"apiGroup":"example.com","kind":"Bucket","name":"web"}}}]`,
			removed: []string{`spec.defaultBackend.service`}, added: []string{`spec.defaultBackend.resource`},
		},
		"paths": {
			reason: "lists in an atomic list", value: true,
			ops:     `[{"op":"replace","path":"/spec/rules/0/http/paths/0/path","value":"/other"}]`,
			removed: []string{`spec.rules`},
		},
		"certificate": {
			reason: "an atomic list", value: true,
			ops:     `[{"op":"replace","path":"/spec/tls","value":[{"hosts":["other.example.com"]}]}]`,
			removed: []string{`spec.tls`},
		},
		"annotation renamed": {
			reason:  "which controllers read",
			ops:     `[{"op":"move","from":"/metadata/annotations/example.com~1rewrite","path":"/metadata/annotations/example.com~1redirect"}]`,
			removed: []string{`metadata.annotations["example.com/rewrite"]`}, added: []string{`metadata.annotations["example.com/redirect"]`},
		},
	},
	"NetworkPolicy": {
		"peer": {
			reason: "a union in an atomic list", value: true,
			ops:     `[{"op":"replace","path":"/spec/ingress/0/from/0","value":{"ipBlock":{"cidr":"0.0.0.0/0"}}}]`,
			removed: []string{`spec.ingress`},
		},
		"from ingress to egress": {
			reason:  "one direction for the other",
			ops:     `[{"op":"remove","path":"/spec/ingress"},{"op":"add","path":"/spec/egress","value":[{}]},{"op":"replace","path":"/spec/policyTypes","value":["Egress"]}]`,
			removed: []string{`spec.ingress`}, added: []string{`spec.egress`},
		},
	},
	"EndpointSlice": {
		"endpoints": {
			reason: "atomic lists", value: true,
			ops:     `[{"op":"replace","path":"/endpoints/0/addresses/0","value":"192.0.2.2"},{"op":"replace","path":"/ports/0/name","value":"web"}]`,
			removed: []string{`endpoints`, `ports`},
		},
	},
}

// structuralPolicies are structural edits of what says how Pods and the cluster are run.
var structuralPolicies = map[string]map[string]structuralEdit{
	"ConfigMap": {
		"key renamed": {
			reason: "a map of text", every: true,
			ops:     `[{"op":"move","from":"/data/greeting","path":"/data/salute"}]`,
			removed: []string{`data.greeting`}, added: []string{`data.salute`},
		},
		"binary key renamed": {
			reason:  "a map of bytes",
			ops:     `[{"op":"move","from":"/binaryData/blob","path":"/binaryData/lump"}]`,
			removed: []string{`binaryData.blob`}, added: []string{`binaryData.lump`},
		},
		"text to bytes": {
			reason: "the same key in another map, where two exclude each other", refused: true,
			ops:     `[{"op":"remove","path":"/data/greeting"},{"op":"add","path":"/binaryData/greeting","value":"aGVsbG8="}]`,
			removed: []string{`data.greeting`}, added: []string{`binaryData.greeting`},
		},
	},
	"ConfigMap with finalizers": {
		"finalizer replaced": {
			reason:  "a set",
			ops:     `[{"op":"replace","path":"/metadata/finalizers/1","value":"example.com/c"}]`,
			removed: []string{`metadata.finalizers[="example.com/b"]`}, added: []string{`metadata.finalizers[="example.com/c"]`},
		},
	},
	"Secret": {
		"key renamed": {
			reason:  "values are withheld, the names of keys are not",
			ops:     `[{"op":"move","from":"/data/password","path":"/data/token"}]`,
			removed: []string{`data.password`}, added: []string{`data.token`},
		},
	},
	"ServiceAccount of many Secrets": {
		"Secret replaced": {
			reason:  "references by name",
			ops:     `[{"op":"replace","path":"/secrets/1/name","value":"c"}]`,
			removed: []string{`secrets[name="b"]`}, added: []string{`secrets[name="c"]`},
		},
		"pull Secret replaced": {
			reason: "an atomic list", value: true,
			ops:     `[{"op":"replace","path":"/imagePullSecrets/0/name","value":"other"}]`,
			removed: []string{`imagePullSecrets`},
		},
	},
	"Namespace": {
		"label renamed": {
			reason:  "in the cluster",
			ops:     `[{"op":"move","from":"/metadata/labels/team","path":"/metadata/labels/group"}]`,
			removed: []string{`metadata.labels.team`}, added: []string{`metadata.labels.group`},
		},
	},
	"ResourceQuota": {
		"limit renamed": {
			reason:  "a map of quantities",
			ops:     `[{"op":"move","from":"/spec/hard/pods","path":"/spec/hard/secrets"}]`,
			removed: []string{`spec.hard.pods`}, added: []string{`spec.hard.secrets`},
		},
	},
	"PodDisruptionBudget": {
		"minAvailable to maxUnavailable": {
			reason: "two fields that exclude each other", every: true,
			ops:     `[{"op":"remove","path":"/spec/minAvailable"},{"op":"add","path":"/spec/maxUnavailable","value":1}]`,
			removed: []string{`spec.minAvailable`}, added: []string{`spec.maxUnavailable`},
		},
	},
	"PodDisruptionBudget by expressions": {
		"maxUnavailable to minAvailable": {
			reason:  "the other way round",
			ops:     `[{"op":"remove","path":"/spec/maxUnavailable"},{"op":"add","path":"/spec/minAvailable","value":"50%"}]`,
			removed: []string{`spec.maxUnavailable`}, added: []string{`spec.minAvailable`},
		},
	},
	"HorizontalPodAutoscaler": {
		"metric": {
			reason: "a union in an atomic list", value: true,
			ops:     `[{"op":"replace","path":"/spec/metrics/0","value":{"type":"Pods","pods":{"metric":{"name":"requests"},"target":{"type":"AverageValue","averageValue":"10"}}}}]`,
			removed: []string{`spec.metrics`},
		},
		"policies": {
			reason: "an atomic list", value: true,
			ops:     `[{"op":"replace","path":"/spec/behavior/scaleDown/policies/0/type","value":"Percent"}]`,
			removed: []string{`scaleDown.policies`},
		},
	},
	"Role": {
		"resource": {
			reason: "an atomic list", value: true,
			ops:     `[{"op":"replace","path":"/rules/0/resources/0","value":"secrets"}]`,
			removed: []string{`rules`},
		},
	},
	"RoleBinding": {
		"subject": {
			reason: "another kind, in an atomic list", value: true,
			ops:     `[{"op":"replace","path":"/subjects/0","value":{"kind":"ServiceAccount","namespace":"default","name":"default"}}]`,
			removed: []string{`subjects`},
		},
	},
	"ValidatingWebhookConfiguration": {
		"webhook renamed": {
			reason:  "with all that is in it",
			ops:     `[{"op":"replace","path":"/webhooks/1/name","value":"three.example.com"}]`,
			removed: []string{`webhooks[name="two.example.com"]`}, added: []string{`webhooks[name="three.example.com"]`},
		},
		"service to URL": {
			reason: "a client has one of them", every: true,
			ops:     `[{"op":"replace","path":"/webhooks/0/clientConfig","value":{"url":"https://other.example.com"}}]`,
			removed: []string{`webhooks[name="one.example.com"].clientConfig.service`}, added: []string{`webhooks[name="one.example.com"].clientConfig.url`},
		},
		"condition renamed": {
			reason:  "a list in a list",
			ops:     `[{"op":"replace","path":"/webhooks/0/matchConditions/0/name","value":"other"}]`,
			removed: []string{`matchConditions[name="none"]`}, added: []string{`matchConditions[name="other"]`},
		},
		"rules": {
			reason: "an atomic list in a list", value: true,
			ops:     `[{"op":"replace","path":"/webhooks/0/rules/0/operations/0","value":"DELETE"}]`,
			removed: []string{`webhooks[name="one.example.com"].rules`},
		},
	},
	"ValidatingAdmissionPolicy": {
		"variable renamed": {
			reason:  "an item of a list by its name",
			ops:     `[{"op":"replace","path":"/spec/variables/0/name","value":"three"}]`,
			removed: []string{`spec.variables[name="one"]`}, added: []string{`spec.variables[name="three"]`},
		},
		"condition renamed": {
			reason:  "another such list",
			ops:     `[{"op":"replace","path":"/spec/matchConditions/0/name","value":"other"}]`,
			removed: []string{`spec.matchConditions[name="none"]`}, added: []string{`spec.matchConditions[name="other"]`},
		},
	},
	"ValidatingAdmissionPolicyBinding": {
		"parameters": {
			reason: "by name or by selector, as a whole", value: true,
			ops:     `[{"op":"replace","path":"/spec/paramRef","value":{"selector":{"matchLabels":{"app":"none"}},"parameterNotFoundAction":"Allow"}}]`,
			removed: []string{`spec.paramRef`},
		},
		"action": {
			reason:  "a set",
			ops:     `[{"op":"replace","path":"/spec/validationActions","value":["Audit"]}]`,
			removed: []string{`spec.validationActions[="Warn"]`}, added: []string{`spec.validationActions[="Audit"]`},
		},
	},
	"PriorityLevelConfiguration": {
		"response": {
			reason: "what comes goes with the other value alone", refused: true,
			ops:     `[{"op":"replace","path":"/spec/limited/limitResponse","value":{"type":"Queue","queuing":{"queues":8,"handSize":4,"queueLengthLimit":5}}}]`,
			removed: []string{`limitResponse.type`}, added: []string{`limitResponse.queuing`},
		},
	},
	"FlowSchema": {
		"subject": {
			reason: "a union in an atomic list", value: true,
			ops:     `[{"op":"replace","path":"/spec/rules/0/subjects/0","value":{"kind":"Group","group":{"name":"none.example.com"}}}]`,
			removed: []string{`spec.rules`},
		},
	},
	"CustomResourceDefinition without conversion": {
		"conversion": {
			reason: "what comes goes with the other value alone", refused: true,
			ops:     `[{"op":"replace","path":"/spec/conversion","value":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":"https://none.example.com"}}}}]`,
			removed: []string{`spec.conversion.strategy`}, added: []string{`spec.conversion.webhook`},
		},
	},
}

// structuralCustom are structural edits of a kind that has all that a schema can describe.
var structuralCustom = map[string]map[string]structuralEdit{
	"Gizmo": {
		"item renamed": {
			reason:  "a list with one key",
			ops:     `[{"op":"replace","path":"/spec/parts/0/name","value":"c"}]`,
			removed: []string{`spec.parts[name="a"]`}, added: []string{`spec.parts[name="c"]`},
		},
		"item in an item renamed": {
			reason:  "a list in a list, with a number for a key",
			ops:     `[{"op":"replace","path":"/spec/parts/1/screws/0/id","value":3}]`,
			removed: []string{`spec.parts[name="b"].screws[id=1]`}, added: []string{`spec.parts[name="b"].screws[id=3]`},
		},
		"item of two keys": {
			reason:  "the second is a default elsewhere",
			ops:     `[{"op":"replace","path":"/spec/ports/1/protocol","value":"TCP"}]`,
			removed: []string{`spec.ports[port=53,protocol="UDP"]`}, added: []string{`spec.ports[port=53,protocol="TCP"]`},
		},
		"item without a key": {
			reason:  "the default is elsewhere",
			ops:     `[{"op":"remove","path":"/spec/ports/1/protocol"}]`,
			removed: []string{`spec.ports[port=53,protocol="UDP"]`}, added: []string{`spec.ports[port=53,protocol="TCP"]`},
		},
		"items without keys": {
			reason:  "the defaults are empty",
			ops:     `[{"op":"remove","path":"/spec/slots/0/row"},{"op":"remove","path":"/spec/slots/1/row"},{"op":"remove","path":"/spec/slots/1/column"}]`,
			removed: []string{`spec.slots[column=2,row="top"]`}, added: []string{`spec.slots[column=2,row=""]`, `spec.slots[column=0,row=""]`},
		},
		"item of a set": {
			reason:  "text",
			ops:     `[{"op":"replace","path":"/spec/tags/1","value":"blue"}]`,
			removed: []string{`spec.tags[="green"]`}, added: []string{`spec.tags[="blue"]`},
		},
		"item of a set in an item": {
			reason:  "a set in a list",
			ops:     `[{"op":"replace","path":"/spec/parts/0/tags/1","value":"blue"}]`,
			removed: []string{`spec.parts[name="a"].tags[="green"]`}, added: []string{`spec.parts[name="a"].tags[="blue"]`},
		},
		"item of a set of numbers": {
			reason:  "numbers",
			ops:     `[{"op":"replace","path":"/spec/numbers/0","value":3}]`,
			removed: []string{`spec.numbers[=1]`}, added: []string{`spec.numbers[=3]`},
		},
		"atomic list and map": {
			reason: "what is ours as a whole", value: true,
			ops:     `[{"op":"replace","path":"/spec/steps/0","value":"zeroth"},{"op":"move","from":"/spec/whole/a","path":"/spec/whole/c"}]`,
			removed: []string{`spec.steps`, `spec.whole`},
		},
		"key renamed": {
			reason:  "a map of many owners",
			ops:     `[{"op":"move","from":"/spec/options/color","path":"/spec/options/tint"}]`,
			removed: []string{`spec.options.color`}, added: []string{`spec.options.tint`},
		},
		"union": {
			reason:  "the definition allows one of them alone",
			ops:     `[{"op":"replace","path":"/spec/source","value":{"bucket":{"name":"a"}}}]`,
			removed: []string{`spec.source.git`}, added: []string{`spec.source.bucket`},
		},
		"unknown field renamed": {
			reason:  "the schema does not know it",
			ops:     `[{"op":"move","from":"/spec/anything/deep/inner/z","path":"/spec/anything/deep/inner/w"}]`,
			removed: []string{`spec.anything.deep.inner.z`}, added: []string{`spec.anything.deep.inner.w`},
		},
		"unknown map renamed": {
			reason:  "with all that is in it",
			ops:     `[{"op":"move","from":"/spec/anything/deep","path":"/spec/anything/shallow"}]`,
			removed: []string{`spec.anything.deep`}, added: []string{`spec.anything.shallow`},
		},
		"unknown map to text": {
			reason: "another type takes its place", value: true,
			ops:     `[{"op":"replace","path":"/spec/anything/deep","value":"text"}]`,
			removed: []string{`spec.anything.deep`},
		},
		"unknown text to map": {
			reason: "another type takes its place", value: true,
			ops:     `[{"op":"replace","path":"/spec/anything/text","value":{"a":{"b":1}}}]`,
			removed: []string{`spec.anything.text`},
		},
		"key to an empty map": {
			reason:  "an apply that removes the last field leaves null in the place of the map",
			ops:     `[{"op":"remove","path":"/spec/whole"},{"op":"add","path":"/spec/none/color","value":"red"}]`,
			removed: []string{`spec.whole`}, added: []string{`spec.none.color`},
		},
		"key to an empty map that may be null": {
			reason:  "null is another value",
			ops:     `[{"op":"remove","path":"/spec/whole"},{"op":"add","path":"/spec/nullable/color","value":"red"}]`,
			removed: []string{`spec.whole`}, added: []string{`spec.nullable.color`},
		},
		"key to an empty map in an item": {
			reason:  "by the place of the item",
			ops:     `[{"op":"remove","path":"/spec/parts/1/size"},{"op":"add","path":"/spec/parts/1/none/color","value":"red"}]`,
			removed: []string{`spec.parts[name="b"].size`}, added: []string{`spec.parts[name="b"].none.color`},
		},
		"items to empty lists": {
			reason:  "an apply that removes the last item leaves null in the place of the list",
			ops:     `[{"op":"remove","path":"/spec/whole"},{"op":"add","path":"/spec/unnamed/-","value":"red"},{"op":"add","path":"/spec/unkeyed/-","value":{"name":"a"}}]`,
			removed: []string{`spec.whole`}, added: []string{`spec.unnamed[="red"]`, `spec.unkeyed[name="a"]`},
		},
		"all replaced": {
			reason:  "nothing of the spec is left",
			ops:     `[{"op":"replace","path":"/spec","value":{"parts":[{"name":"z"}],"tags":["blue"],"options":{"shape":"round"},"anything":{"other":[{"name":"a"}]}}}]`,
			removed: []string{`spec.anything.deep`, `spec.anything.list`}, // the note has no room for all
		},
	},
}
