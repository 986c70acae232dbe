package desired

import (
	"bytes"
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Encode returns an object as JSON. Unlike MarshalJSON it leaves <, > and & as they are,
// which would otherwise take six bytes each: a page of HTML would be too long for a request.
func Encode(u *unstructured.Unstructured) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(u.Object); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// escaped is JSON as MarshalJSON returns it. Configurations in statuses identify that.
func escaped(text []byte) []byte {
	if !bytes.ContainsAny(text, "<>&") {
		return append(bytes.Clone(text), '\n')
	}
	var b bytes.Buffer
	json.HTMLEscape(&b, text)
	b.WriteByte('\n')
	return b.Bytes()
}
