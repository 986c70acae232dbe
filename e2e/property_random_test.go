package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// place is a value in an object that may be edited, with the JSON pointer to it.
type place struct {
	pointer string
	value   any
	// inList is true for an item of a list.
	inList bool
}

// placesIn are all values of an object that users edit.
func placesIn(obj *unstructured.Unstructured) []place {
	var all []place
	for _, name := range slices.Sorted(maps.Keys(obj.Object)) {
		switch name {
		case "apiVersion", "kind", "status":
		case "metadata":
			for _, field := range []string{"labels", "annotations"} {
				if values, found, _ := unstructured.NestedMap(obj.Object, "metadata", field); found {
					all = appendPlaces(all, place{pointer: "/metadata/" + field, value: values})
				}
			}
		default:
			all = appendPlaces(all, place{pointer: "/" + name, value: obj.Object[name]})
		}
	}
	return slices.DeleteFunc(all, func(p place) bool {
		return strings.Contains(p.pointer, "managed-by") || strings.Contains(p.pointer, "infrahub") || strings.HasSuffix(p.pointer, "/replicas")
	})
}

func appendPlaces(all []place, p place) []place {
	all = append(all, p)
	switch v := p.value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			token := strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
			all = appendPlaces(all, place{pointer: p.pointer + "/" + token, value: v[name]})
		}
	case []any:
		for i, item := range v {
			all = appendPlaces(all, place{pointer: fmt.Sprintf("%s/%d", p.pointer, i), value: item, inList: true})
		}
	}
	return all
}

// swaps are members of unions, by the last token of the path of one, with others that may
// take its place.
var swaps = map[string][]string{
	"emptyDir":  {`"hostPath":{"path":"/"}`, `"configMap":{"name":"a"}`, `"secret":{"secretName":"a"}`, `"nfs":{"server":"a.example.com","path":"/"}`},
	"configMap": {`"emptyDir":{}`, `"secret":{"secretName":"a"}`, `"projected":{"sources":[{"secret":{"name":"a"}}]}`},
	"httpGet":   {`"exec":{"command":["true"]}`, `"tcpSocket":{"port":80}`, `"grpc":{"port":80}`},
	"tcpSocket": {`"exec":{"command":["true"]}`, `"httpGet":{"path":"/","port":80}`, `"grpc":{"port":80}`},
	"exec":      {`"httpGet":{"path":"/","port":80}`, `"tcpSocket":{"port":80}`, `"sleep":{"seconds":1}`},
	"value":     {`"valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}`, `"valueFrom":{"secretKeyRef":{"name":"a","key":"b"}}`},
	"valueFrom": {`"value":"text"`},
	"fieldRef":  {`"configMapKeyRef":{"name":"a","key":"b"}`, `"resourceFieldRef":{"resource":"limits.cpu","containerName":"web"}`},
	"service":   {`"resource":{"apiGroup":"example.com","kind":"Bucket","name":"a"}`, `"url":"https://other.example.com"`},

	"minAvailable": {`"maxUnavailable":1`, `"maxUnavailable":"50%"`},
	"nodeAffinity": {`"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"zone"}]}`},
}

// randomOps is a JSON patch of one to three operations, which the API server may refuse.
func randomOps(random *rand.Rand, live *unstructured.Unstructured) string {
	obj := live
	var all []json.RawMessage
	for range 1 + random.IntN(3) {
		ops := randomOp(random, placesIn(obj))
		changed, err := patchedLocally(obj, ops)
		if err != nil {
			continue
		}
		obj = changed
		var list []json.RawMessage
		if json.Unmarshal([]byte(ops), &list) == nil {
			all = append(all, list...)
		}
	}
	text, err := json.Marshal(all)
	if err != nil || len(all) == 0 {
		return "[]"
	}
	return string(text)
}

// randomOp is a JSON patch that changes the structure at one place, or a value there.
func randomOp(random *rand.Rand, places []place) string {
	p := places[random.IntN(len(places))]
	parent, last := p.pointer[:strings.LastIndex(p.pointer, "/")], p.pointer[strings.LastIndex(p.pointer, "/")+1:]
	name := fmt.Sprintf("x%d", random.IntN(5))
	switch items, _ := p.value.([]any); {
	case len(swaps[last]) > 0:
		other := swaps[last][random.IntN(len(swaps[last]))]
		member, value, _ := strings.Cut(other, ":")
		return fmt.Sprintf(`[{"op":"remove","path":%q},{"op":"add","path":"%s/%s","value":%s}]`, p.pointer, parent, strings.Trim(member, `"`), value)
	case len(items) > 0 && random.IntN(2) == 0:
		item, err := json.Marshal(items[random.IntN(len(items))])
		if err != nil {
			return "[]"
		}
		// A copy of an item with another key, which the next operation may give it.
		if fields, isMap := items[0].(map[string]any); isMap && fields["name"] != nil {
			return fmt.Sprintf(`[{"op":"add","path":"%s/-","value":%s},{"op":"replace","path":"%s/%d/name","value":%q}]`, p.pointer, item, p.pointer, len(items), name)
		}
		return fmt.Sprintf(`[{"op":"add","path":"%s/-","value":%q}]`, p.pointer, name)
	case p.inList && random.IntN(2) == 0, !p.inList && random.IntN(4) == 0:
		return fmt.Sprintf(`[{"op":"remove","path":%q}]`, p.pointer)
	}
	switch v := p.value.(type) {
	case string:
		return fmt.Sprintf(`[{"op":"replace","path":%q,"value":%q}]`, p.pointer, []string{name, "UDP", "TCP", "/" + name, "10.0.0.1", "Always"}[random.IntN(6)])
	case int64:
		return fmt.Sprintf(`[{"op":"replace","path":%q,"value":%d}]`, p.pointer, v+1+random.Int64N(5))
	case map[string]any:
		if !p.inList {
			return fmt.Sprintf(`[{"op":"add","path":"%s/%s","value":%q}]`, p.pointer, name, name)
		}
	}
	return fmt.Sprintf(`[{"op":"move","from":%q,"path":"%s/%s"}]`, p.pointer, parent, name)
}
