package e2e

// coreEdits are edits of what lives in most namespaces.
var coreEdits = map[string]map[string]anEdit{
	"ConfigMap": {
		"merge patch": {
			reason: "a kind without generation", want: reverted, told: "data.greeting",
			change: change{merge, `{"data":{"greeting":"changed"}}`},
		},
		"strategic merge patch": {
			reason: "what kubectl patch sends", want: reverted, told: "data.greeting",
			change: change{strategic, `{"data":{"greeting":"changed"}}`},
		},
		"JSON patch": {
			reason: "an edit by path", want: reverted, told: "data.greeting",
			change: change{jsonOps, `[{"op":"replace","path":"/data/greeting","value":"changed"}]`},
		},
		"update": {
			reason: "kubectl edit writes the whole object", want: reverted, told: "data.greeting",
			change: change{put, `{"data":{"greeting":"changed"}}`},
		},
		"apply by force": {
			reason: "another tool takes the field", want: reverted, told: "data.greeting",
			change: change{byForce, `{"data":{"greeting":"changed"}}`},
		},
		"empty value": {
			reason: "there, and not what we want", want: reverted, told: "data.greeting to \"hello\"; \"person\" had set it to \"\"",
			change: change{merge, `{"data":{"greeting":""}}`},
		},
		"null": {
			reason: "a key removed by a nested null", want: reverted, told: "restored data.greeting to ",
			change: change{merge, `{"data":{"greeting":null}}`},
		},
		"null above": {
			reason: "all keys removed by one null", want: reverted, told: "restored data to ",
			change: change{merge, `{"data":null}`},
		},
		"moved key": {
			reason: "removed here, and added there", want: reverted, told: "emoved data.moved; \"person\" had added it as \"hello\"",
			whole:  true,
			change: change{jsonOps, `[{"op":"move","from":"/data/greeting","path":"/data/moved"}]`},
		},
		"two keys": {
			reason: "both are told of", want: reverted, told: "data.farewell",
			change: change{merge, `{"data":{"greeting":"changed","farewell":"changed"}}`},
		},
		"ours and foreign": {
			reason: "the foreign key stays, and does not hide ours", want: reverted, told: "data.greeting",
			change: change{merge, `{"data":{"greeting":"changed","extra":"mine"}}`},
		},
		"binary data": {
			reason: "base64 like Secrets, and no secret", want: reverted, told: "binaryData.blob",
			change: change{merge, `{"binaryData":{"blob":"BAUGBw=="}}`},
		},
		"everything": {
			reason: "kubectl replace with another object of the name", want: relabelled, whole: true,
			change: change{put, `{"metadata":{"labels":null,"annotations":null},"data":{"other":"mine"},"binaryData":null}`},
		},
		"label": {
			reason: "labels are fields like others", want: reverted, told: "metadata.labels.app",
			change: change{merge, `{"metadata":{"labels":{"app":"changed"}}}`},
		},
		"owner annotation": {
			reason: "the mark that says whose it is", want: reverted, told: "metadata.annotations",
			change: change{merge, `{"metadata":{"annotations":null}}`},
		},
		"our label removed": {
			reason: "the watch sees it no more", want: relabelled,
			change: change{merge, `{"metadata":{"labels":{"managed-by":null}}}`},
		},
		"our label changed": {
			reason: "another tool claims it", want: relabelled,
			change: change{jsonOps, `[{"op":"replace","path":"/metadata/labels/managed-by","value":"helm"}]`},
		},
		"labels cleared": {
			reason: "by an update that knows of none", want: relabelled,
			change: change{put, `{"metadata":{"labels":null}}`},
		},
		"label and value": {
			reason: "what is changed as well is reverted with it", want: relabelled,
			change: change{merge, `{"metadata":{"labels":{"managed-by":null}},"data":{"greeting":"changed"}}`},
		},
		"managedFields cleared": {
			reason: "the record of the owned fields is gone", want: reverted,
			change: change{merge, `{"metadata":{"managedFields":[{}]}}`},
		},
		"managedFields cleared and value": {
			reason: "the value says it", want: reverted, told: "data.greeting",
			change: change{merge, `{"metadata":{"managedFields":[{}]},"data":{"greeting":"changed"}}`},
		},
		"our name, applied": {
			reason: "the owned set is as it was, the value is not", want: reverted, told: "data.greeting",
			change: change{asVidra, `{"data":{"greeting":"changed"}}`},
		},
		"our name, applied without a key": {
			reason: "what is not applied any more is removed", want: reverted, told: "restored data.greeting to ",
			change: change{asVidra, `{"data":{"greeting":null}}`},
		},
		"our name, applied with a key": {
			reason: "it would be ours to remove, had we put it there", want: reverted,
			change: change{asVidra, `{"data":{"extra":"mine"}}`},
		},
		"our name, the same again": {
			reason: "it is the object that we apply", want: stays,
			change: change{asVidra, `{}`},
		},
		"our name, updated": {
			reason: "the name is ours, the operation is not", want: reverted, told: "data.greeting",
			change: change{underOurName, `{"data":{"greeting":"changed"}}`},
		},
		"shared, then changed": {
			reason: "who shares a field with us may not change it", want: reverted, told: "data.greeting",
			first:  &change{byForce, `{"data":{"greeting":"hello"}}`},
			change: change{byForce, `{"data":{"greeting":"changed"}}`},
		},
		"shared, then changed by a third": {
			reason: "both lose the field, and we take it back", want: reverted, told: "data.greeting",
			first:  &change{byForce, `{"data":{"greeting":"hello"}}`},
			change: change{merge, `{"data":{"greeting":"changed"}}`},
		},
		"shared, then let go": {
			reason: "it remains ours", want: stays,
			first:  &change{byForce, `{"data":{"greeting":"hello","other":"mine"}}`},
			change: change{byForce, `{"data":{"other":"mine"}}`},
		},
		"agreement": {
			reason: "now both own the field", want: stays,
			change: change{byForce, `{"data":{"greeting":"hello","farewell":"goodbye"}}`},
		},
		"agreement of three": {
			reason: "however many they are", want: stays,
			first:  &change{byForce, `{"data":{"greeting":"hello"}}`},
			change: change{byAnother, `{"data":{"greeting":"hello"}}`},
		},
		"no-op": {
			reason: "it is set already", want: stays,
			change: change{put, `{"data":{"greeting":"hello"}}`},
		},
		"unowned key": {
			reason: "it belongs to who wrote it", want: stays,
			change: change{merge, `{"data":{"extra":"mine"}}`},
		},
		"unowned key removed": {
			reason: "and to who removes it", want: stays,
			first:  &change{merge, `{"data":{"extra":"mine"}}`},
			change: change{jsonOps, `[{"op":"remove","path":"/data/extra"}]`},
		},
		"foreign label": {
			reason: "labels have many owners", want: stays,
			change: change{strategic, `{"metadata":{"labels":{"example.com/team":"web"}}}`},
		},
		"foreign annotation": {
			reason: "annotations have, too", want: stays,
			change: change{byForce, `{"metadata":{"annotations":{"example.com/note":"hi"}}}`},
		},
		"foreign finalizer": {
			reason: "a set of which no item is ours", want: stays,
			undo:   `{"metadata":{"finalizers":null}}`,
			change: change{merge, `{"metadata":{"finalizers":["example.com/wait"]}}`},
		},
		"owner reference": {
			reason: "it is another one's dependent from now on", want: stays,
			change: change{merge, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"<fence>","uid":"<uid>"}]}}`},
		},
		"immutable": {
			reason: "a field that we leave out", want: stays,
			change: change{merge, `{"immutable":true}`},
		},
		"deleted": {
			reason: "nothing is left of it", want: recreated,
			change: change{deletion, ""},
		},
		"emptied, then deleted": {
			reason: "whatever it was at last", want: recreated,
			first:  &change{merge, `{"data":{"extra":"mine"}}`},
			change: change{deletion, ""},
		},
	},
	"ConfigMap of 900 KiB": {
		"one byte": {
			reason: "the digest is of the whole value", want: reverted, told: "data.blob",
			change: change{oneByte, ""},
		},
	},
	"Secret": {
		"data": {
			reason: "the path is told, the value is not", want: reverted, told: "data.password (values withheld); \"person\" had changed it",
			change: change{merge, `{"data":{"password":"bGV0bWVpbg=="}}`},
		},
		"stringData": {
			reason: "the API server writes it into data", want: reverted, told: "data.password (values withheld); \"person\" had changed it",
			change: change{strategic, `{"stringData":{"password":"letmein"}}`},
		},
		"key removed": {
			reason: "what it was is not told either", want: reverted, told: "restored data.password (values withheld)",
			change: change{jsonOps, `[{"op":"remove","path":"/data/password"}]`},
		},
		"unowned key": {
			reason: "a key of another manager", want: stays,
			change: change{merge, `{"stringData":{"token":"mine"}}`},
		},
		"same value": {
			reason: "stringData of what is there", want: stays,
			change: change{merge, `{"stringData":{"password":"hunter2"}}`},
		},
		"our label": {
			reason: "a Secret without it is in no watch", want: relabelled,
			change: change{merge, `{"metadata":{"labels":{"managed-by":null}}}`},
		},
		"deleted": {
			reason: "nothing is left of it", want: recreated,
			change: change{deletion, ""},
		},
	},
	"Service": {
		"selector": {
			reason: "no generation", want: reverted, told: "spec.selector",
			change: change{merge, `{"spec":{"selector":{"app":"other"}}}`},
		},
		"selector widened": {
			reason: "a map that is ours as a whole, with one key more", want: reverted, told: "spec.selector",
			change: change{merge, `{"spec":{"selector":{"tier":"front"}}}`},
		},
		"port name": {
			reason: "an item of a list by two keys", want: reverted, told: "spec.ports[port=81,protocol=\"TCP\"].name",
			change: change{jsonOps, `[{"op":"replace","path":"/spec/ports/1/name","value":"other"}]`},
		},
		"target port": {
			reason: "a number made a name", want: reverted, told: "spec.ports[port=80,protocol=\"TCP\"].targetPort",
			change: change{strategic, `{"spec":{"ports":[{"port":80,"targetPort":"web"}]}}`},
		},
		"port moved": {
			reason: "another key, so the item is gone", want: reverted, told: "emoved spec.ports[port=8000,protocol=\"TCP\"]; \"person\" had added it",
			whole:  true,
			change: change{jsonOps, `[{"op":"replace","path":"/spec/ports/0/port","value":8000},{"op":"replace","path":"/spec/ports/0/name","value":"moved"}]`},
		},
		"port removed": {
			reason: "an item gone", want: reverted, told: "restored spec.ports[port=81,protocol=\"TCP\"] to ",
			change: change{jsonOps, `[{"op":"remove","path":"/spec/ports/1"}]`},
		},
		"port added": {
			reason: "the list has other items of ours", want: stays,
			change: change{strategic, `{"spec":{"ports":[{"name":"metrics","port":9090}]}}`},
		},
		"ports swapped": {
			reason: "the items are ours, their order is unmanaged", want: stays,
			change: change{jsonOps, `[{"op":"move","from":"/spec/ports/1","path":"/spec/ports/0"}]`},
		},
		"session affinity": {
			reason: "a default that we leave alone", want: stays,
			change: change{merge, `{"spec":{"sessionAffinity":"ClientIP"}}`},
		},
		"node port": {
			reason: "the type is not ours, so neither is the number", want: stays,
			change: change{merge, `{"spec":{"type":"NodePort"}}`},
		},
		"status": {
			reason: "a load balancer reports its address", want: stays,
			change: change{reporting, `{"status":{"conditions":[{"type":"Tested","status":"True","reason":"E2E","message":"","lastTransitionTime":"2026-01-02T03:04:05Z"}]}}`},
		},
		"deleted": {
			reason: "nothing is left of it", want: recreated,
			change: change{deletion, ""},
		},
	},
	"ServiceAccount": {
		"boolean": {
			reason: "no generation, and false is a value", want: reverted, told: "automountServiceAccountToken to false; \"person\" had set it to true",
			change: change{merge, `{"automountServiceAccountToken":true}`},
		},
		"boolean removed": {
			reason: "false is not the same as nothing", want: reverted, told: "restored automountServiceAccountToken to ",
			change: change{merge, `{"automountServiceAccountToken":null}`},
		},
		"pull secret added": {
			reason: "kubectl merges by name, but the list has one owner", want: reverted, told: "imagePullSecrets",
			change: change{strategic, `{"imagePullSecrets":[{"name":"mine"}]}`},
		},
		"token added": {
			reason: "a list that we leave out", want: stays,
			change: change{strategic, `{"secrets":[{"name":"mine"}]}`},
		},
		"deleted": {
			reason: "nothing is left of it", want: recreated,
			change: change{deletion, ""},
		},
	},
	"Namespace": {
		"label": {
			reason: "a kind of the cluster without generation", want: reverted, told: "metadata.labels.team",
			change: change{merge, `{"metadata":{"labels":{"team":"mine"}}}`},
		},
		"foreign label": {
			reason: "policies are labels", want: stays,
			change: change{merge, `{"metadata":{"labels":{"pod-security.kubernetes.io/warn":"baseline"}}}`},
		},
		"our label": {
			reason: "the watch sees it no more", want: relabelled,
			change: change{strategic, `{"metadata":{"labels":{"managed-by":null}}}`},
		},
		"deleted": {
			reason: "it is emptied first, and made again when it is gone", want: recreated,
			change: change{deletion, ""},
		},
	},
	"PersistentVolumeClaim": {
		"label": {
			reason: "most of its spec cannot be changed", want: reverted, told: "metadata.labels.app",
			change: change{merge, `{"metadata":{"labels":{"app":"changed"}}}`},
		},
		"label removed": {
			reason: "a removed field has no owner", want: reverted, told: "restored metadata.labels.app to ",
			change: change{merge, `{"metadata":{"labels":{"app":null}}}`},
		},
		"quantity in another notation": {
			reason: "1024Mi is 1Gi", want: stays,
			change: change{merge, `{"spec":{"resources":{"requests":{"storage":"1024Mi"}}}}`},
		},
		"selected node": {
			reason: "what the scheduler writes", want: stays,
			change: change{merge, `{"metadata":{"annotations":{"volume.kubernetes.io/selected-node":"node"}}}`},
		},
		"status": {
			reason: "no generation, and no spec", want: stays,
			change: change{reporting, `{"status":{"conditions":[{"type":"Resizing","status":"True"}]}}`},
		},
		"deleted": {
			reason: "a finalizer holds it for a moment", want: recreated,
			change: change{deletion, ""},
		},
	},
}
