package e2e

// customEdits are edits of custom resources and of their definitions.
var customEdits = map[string]map[string]anEdit{
	"CustomResourceDefinition": {
		"schema": {
			reason: "an atomic list, deep inside", want: reverted, told: "spec.versions",
			change: change{jsonOps, `[{"op":"replace","path":"/spec/versions/0/schema/openAPIV3Schema/description","value":"changed"}]`},
		},
		"category": {
			reason: "an atomic list", want: reverted, told: "spec.names.categories",
			change: change{jsonOps, `[{"op":"add","path":"/spec/names/categories/-","value":"mine"}]`},
		},
		"short name": {
			reason: "a field that we leave out", want: stays,
			change: change{merge, `{"spec":{"names":{"shortNames":["th"]}}}`},
		},
		"foreign annotation": {
			reason: "what has certificates injected", want: stays,
			change: change{merge, `{"metadata":{"annotations":{"example.com/inject-ca-from":"web"}}}`},
		},
		"deleted": {
			reason: "its objects go first, and there are none", want: recreated,
			change: change{deletion, ""},
		},
	},
	"Widget": {
		"scale": {
			reason: "a subresource that the definition makes", want: reverted, told: "reverted spec.count to 1; \"person\" had set it to 5 through scale",
			change: change{scaling, `{"spec":{"replicas":5}}`},
		},
		"number": {
			reason: "by a path", want: reverted, told: "spec.count",
			change: change{jsonOps, `[{"op":"replace","path":"/spec/count","value":5}]`},
		},
		"number in another notation": {
			reason: "2.0 is 2", want: stays,
			change: change{merge, `{"spec":{"ratio":2.0}}`},
		},
		"fraction": {
			reason: "2.5 is not", want: reverted, told: "spec.ratio to 2; \"person\" had set it to 2.5",
			change: change{merge, `{"spec":{"ratio":2.5}}`},
		},
		"item by key": {
			reason: "a list with a key", want: reverted, told: "spec.parts[name=\"b\"].size to 2; \"person\" had set it to 9",
			change: change{jsonOps, `[{"op":"replace","path":"/spec/parts/1/size","value":9}]`},
		},
		"item removed": {
			reason: "an item gone", want: reverted, told: "restored spec.parts[name=\"a\"] to ",
			change: change{jsonOps, `[{"op":"remove","path":"/spec/parts/0"}]`},
		},
		"item added": {
			reason: "a list with other items of ours", want: stays,
			change: change{byForce, `{"spec":{"parts":[{"name":"c","size":3}]}}`},
		},
		"item added in front": {
			reason: "where it stands does not matter", want: stays,
			change: change{jsonOps, `[{"op":"add","path":"/spec/parts/0","value":{"name":"c","size":3}}]`},
		},
		"items swapped": {
			reason: "their order is unmanaged", want: stays,
			change: change{jsonOps, `[{"op":"move","from":"/spec/parts/1","path":"/spec/parts/0"}]`},
		},
		"default of an item": {
			reason: "an item of ours, an unmanaged field", want: stays,
			change: change{jsonOps, `[{"op":"replace","path":"/spec/parts/0/color","value":"blue"}]`},
		},
		"set item added": {
			reason: "a set has many owners", want: stays,
			change: change{byForce, `{"spec":{"tags":["blue"]}}`},
		},
		"set item removed": {
			reason: "an item gone", want: reverted, told: "restored spec.tags[=\"green\"] to ",
			change: change{merge, `{"spec":{"tags":["red"]}}`},
		},
		"set in another order": {
			reason: "a set has none", want: stays,
			change: change{merge, `{"spec":{"tags":["green","red"]}}`},
		},
		"atomic list in another order": {
			reason: "a list has one", want: reverted, told: "spec.steps",
			change: change{merge, `{"spec":{"steps":["second","first"]}}`},
		},
		"atomic list, item added": {
			reason: "it is ours as a whole", want: reverted, told: "spec.steps",
			change: change{jsonOps, `[{"op":"add","path":"/spec/steps/-","value":"third"}]`},
		},
		"atomic map, key added": {
			reason: "it is ours as a whole", want: reverted, told: "spec.whole",
			change: change{merge, `{"spec":{"whole":{"c":"3"}}}`},
		},
		"map, key added": {
			reason: "a map has many owners", want: stays,
			change: change{merge, `{"spec":{"options":{"size":"big"}}}`},
		},
		"map, key changed": {
			reason: "a key has one", want: reverted, told: "spec.options.color",
			change: change{put, `{"spec":{"options":{"color":"blue"}}}`},
		},
		"key in an empty map": {
			reason: "the manifest names no key of it", want: stays,
			change: change{merge, `{"spec":{"none":{"color":"blue"}}}`},
		},
		"item in an empty set": {
			reason: "the manifest names no item of it", want: stays,
			change: change{merge, `{"spec":{"unnamed":["blue"]}}`},
		},
		"empty map removed": {
			reason: "that it is there is ours", want: reverted, told: "restored spec.none to ",
			change: change{merge, `{"spec":{"none":null}}`},
		},
		"value for null": {
			reason: "that there is no value is ours", want: reverted, told: "spec.nothing to null; \"person\" had set it to \"something\"",
			change: change{merge, `{"spec":{"nothing":"something"}}`},
		},
		"unknown field": {
			reason: "the schema does not know it, but we own it", want: reverted, told: "spec.anything.deep.x to 1; \"person\" had set it to 7",
			change: change{merge, `{"spec":{"anything":{"deep":{"x":7}}}}`},
		},
		"unknown field of another type": {
			reason: "a number made a text", want: reverted, told: "spec.anything.deep.x to 1; \"person\" had set it to \"1\"",
			change: change{merge, `{"spec":{"anything":{"deep":{"x":"1"}}}}`},
		},
		"unknown field added": {
			reason: "no other manager does", want: stays,
			change: change{merge, `{"spec":{"anything":{"deep":{"y":1}}}}`},
		},
		"unknown list": {
			reason: "a list without a schema is atomic", want: reverted, told: "spec.anything.list",
			change: change{jsonOps, `[{"op":"add","path":"/spec/anything/list/-","value":3}]`},
		},
		"unknown fields removed": {
			reason: "by one null", want: reverted, told: "restored spec.anything to ",
			change: change{merge, `{"spec":{"anything":null}}`},
		},
		"default": {
			reason: "a field that the API server fills in", want: stays,
			change: change{merge, `{"spec":{"mode":"manual"}}`},
		},
		"status": {
			reason: "through its subresource", want: stays,
			change: change{reporting, `{"status":{"count":5,"phase":"Done"}}`},
		},
		"status through the object": {
			reason: "the API server ignores it", want: stays,
			change: change{merge, `{"status":{"phase":"Done"}}`},
		},
		"our label": {
			reason: "the watch sees it no more", want: relabelled,
			change: change{merge, `{"metadata":{"labels":{"managed-by":null}}}`},
		},
		"managedFields cleared": {
			reason: "the record of the owned fields is gone", want: reverted,
			change: change{merge, `{"metadata":{"managedFields":[{}]}}`},
		},
		"deleted": {
			reason: "nothing is left of it", want: recreated,
			change: change{deletion, ""},
		},
	},
	"Gadget": {
		"status of ours": {
			reason: "without a subresource it is a field like others", want: reverted, told: "status.phase",
			change: change{merge, `{"status":{"phase":"Changed"}}`},
		},
		"status of others": {
			reason: "a field of it that we leave out", want: stays,
			change: change{merge, `{"status":{"seen":true}}`},
		},
		"spec": {
			reason: "a kind without a schema", want: reverted, told: "spec.size",
			change: change{merge, `{"spec":{"size":{"of":"another type"}}}`},
		},
		"whole spec": {
			reason: "removed by one null", want: reverted, told: "restored spec to ",
			change: change{merge, `{"spec":null}`},
		},
	},
}
