package manifest

import (
	"bytes"
	"encoding/json"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	sigsyaml "sigs.k8s.io/yaml"
)

// asKubectl returns what kubectl makes of one YAML document: YAML to JSON with
// sigs.k8s.io/yaml, JSON to unstructured content with apimachinery.
func asKubectl(text string) (any, error) {
	data, err := sigsyaml.YAMLToJSON([]byte(text))
	if err != nil {
		return nil, err
	}
	var value any
	err = utiljson.Unmarshal(data, &value)
	return value, err
}

// asVidra returns what this package makes of one YAML document, without asking
// for an object.
func asVidra(text string) (any, *Error) {
	roots, err := document{number: 1, line: 1, text: text}.parse()
	if err != nil {
		return nil, err
	}
	if len(roots) != 1 {
		return nil, faultf(0, "is not one value")
	}
	return newConverter(Options{MaxBytes: DefaultMaxBytes}).value(roots[0], 0)
}

func TestValuesAreThoseOfKubectl(t *testing.T) {
	cases := map[string]struct {
		reason string
		text   string
		want   any
	}{
		"Octal":              {"YAML 1.1 reads a leading zero as octal: file modes depend on it", "v: 0644", int64(420)},
		"OctalYAML12":        {"the YAML 1.2 spelling means the same", "v: 0o644", int64(420)},
		"NotOctal":           {"with an 8 in it, it is a decimal number", "v: 0689", int64(689)},
		"Hex":                {"hexadecimal is an integer", "v: 0x1F", int64(31)},
		"Binary":             {"so is binary", "v: 0b101", int64(5)},
		"Underscores":        {"underscores only group digits", "v: 1_000", int64(1000)},
		"Exponent":           {"a whole number stays one, however it is spelled: JSON says 1000", "v: 1e3", int64(1000)},
		"WholeFloat":         {"1.0 reaches the API server as 1", "v: 1.0", int64(1)},
		"Float":              {"a fraction is a float64", "v: 0.5", 0.5},
		"FloatDot":           {"a number may begin with the point", "v: .5", 0.5},
		"MaxInt64":           {"the largest int64 keeps all its digits", "v: 9223372036854775807", int64(9223372036854775807)},
		"BeyondInt64":        {"what does not fit becomes a float64, as in apimachinery", "v: 18446744073709551615", 18446744073709551615.0},
		"BeyondUint64":       {"the same", "v: 184467440737095516150", 184467440737095516150.0},
		"TooLargeIsText":     {"no number at all for YAML 1.1, so text", "v: 1e999", "1e999"},
		"Yes":                {"YAML 1.1 has more words for true", "v: yes", true},
		"Y":                  {"this one too", "v: y", true},
		"On":                 {"and this", "v: on", true},
		"Off":                {"and for false", "v: Off", false},
		"NorwayQuoted":       {"quotes make it text", "v: 'no'", "no"},
		"KeyOn":              {"a key that is a boolean is spelled out", "on: push", nil},
		"KeyNumber":          {"a key that is a number is its text", "0x10: a", nil},
		"KeyFloat":           {"a key is spelled as sigs.k8s.io/yaml does it", "1.50: a", nil},
		"Null":               {"~ is null", "v: ~", nil},
		"Empty":              {"so is nothing", "v:", nil},
		"EmptyQuoted":        {"an empty string is not", `v: ""`, ""},
		"Timestamp":          {"a timestamp stays the text that it is", "v: 2001-12-14t21:59:43.10-05:00", "2001-12-14t21:59:43.10-05:00"},
		"Date":               {"so does a date", "v: 2001-12-14", "2001-12-14"},
		"TagString":          {"a tag makes a number text", "v: !!str 12", "12"},
		"TagInt":             {"and text a number", `v: !!int "12"`, int64(12)},
		"TagFloat":           {"an integer may be tagged as a float", "v: !!float 3", int64(3)},
		"TagBinary":          {"the tag !!binary decodes base64", "v: !!binary aGVsbG8=", "hello"},
		"TagUnknown":         {"kubectl ignores tags that it does not know", "v: !mine 12", "12"},
		"Literal":            {"a block scalar keeps its line breaks", "v: |\n  a\n  b\n", "a\nb\n"},
		"LiteralCRLF":        {"line breaks inside are LF, whatever the file's are", "v: |\r\n  a\r\n  b\r\n", "a\nb\n"},
		"Folded":             {"a folded one joins its lines", "v: >-\n  a\n  b\n", "a b"},
		"LiteralNumber":      {"a block scalar is text", "v: |-\n  12\n", "12"},
		"Alias":              {"an alias is a copy", "a: &x {b: 1}\nv: *x", map[string]any{"b": int64(1)}},
		"AliasScalar":        {"also of a scalar, with its type", "a: &x 12\nv: *x", int64(12)},
		"Merge":              {"what stands behind a merge key overwrites it", "a: &x {b: 1, c: 2}\nv: {<<: *x, c: 3}", map[string]any{"b": int64(1), "c": int64(3)}},
		"MergeList":          {"of several the first has precedence", "a: &x {b: 1}\nd: &y {b: 2, c: 2}\nv: {<<: [*x, *y]}", map[string]any{"b": int64(1), "c": int64(2)}},
		"MergeQuoted":        {"in quotes it is a key like any other", "v: {'<<': 1}", map[string]any{"<<": int64(1)}},
		"SexagesimalIsText":  {"base 60 is not supported", "v: 1:30", "1:30"},
		"VersionIsText":      {"two points make no number", "v: 1.2.3", "1.2.3"},
		"PlusSign":           {"a sign is allowed", "v: +12", int64(12)},
		"MinusZero":          {"there is one integer zero", "v: -0.0", int64(0)},
		"JSONInYAML":         {"JSON is nearly YAML", `{"v": [1, "a", null, true]}`, []any{int64(1), "a", nil, true}},
		"FlowKeyWithoutText": {"a flow mapping may leave out values", "v: {a, b: }", map[string]any{"a": nil, "b": nil}},
		"Infinity":           {"words for infinity in quotes are text", `v: ".inf"`, ".inf"},
		"HugeFloat":          {"JSON spells it with an exponent", "v: 1e22", 1e22},
		"FloatDigits":        {"the digits of JSON decide, not the value", "v: 1.152921504606846976e18", int64(1152921504606847000)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			want, err := asKubectl(tc.text)
			require.NoError(t, err, tc.reason)
			got, fault := asVidra(tc.text)
			require.Nil(t, fault, tc.reason)
			require.Equal(t, want, got, tc.reason)
			if v, ok := got.(map[string]any)["v"]; ok {
				require.Equal(t, tc.want, v, tc.reason)
			}
		})
	}
}

// FuzzValuesAreThoseOfKubectl holds the reader against kubectl's: what both read
// must be equal, and what only kubectl refuses must not slip through.
func FuzzValuesAreThoseOfKubectl(f *testing.F) {
	for _, seed := range []string{
		"a: 1\nb: [x, 0644, 1e3, yes, 2001-01-01, 1_0, 0b1, 0o7, .5, -.inf, ~]\n",
		"a: &x {b: 1, <<: {c: 1}}\nd: *x\ne: {<<: [*x, {z: 1}], b: 2}\n",
		"a: !!int '1'\nb: !!str 1\nc: !!float 1\nd: !!binary aGk=\ne: !x 1\nf: !!bool yes\n",
		"? a\n: - b\n  - |\n   c\n  - >+\n   d\n\n", "%YAML 1.1\n---\na: \"\\u00e9\\x41\"\n...\n",
		`{"a": [1.0, 1e3, "\ud83d\ude00", null], "b": {"c": {}}}`, "1: a\n1.5: b\ntrue: c\n'x': d\n",
		"# c\na: # d\n  # e\n  - b # f\n# g\n", "a: \"x\n  y\"\nb: 'it''s'\nc: plain\n  text\n", "a:\tb\r\nc: d\r\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(split(text)) != 1 || len(text) > 1<<12 || nonSpecificTag.MatchString(text) {
			t.Skip()
		}
		got, fault := asVidra(text)
		if fault != nil {
			t.Skip()
		}
		want, err := asKubectl(text)
		if err != nil && json.Valid([]byte(skipToValue(skipMarker(text)))) {
			// kubectl reads JSON as JSON if YAML does not like it.
			err = utiljson.Unmarshal([]byte(skipToValue(skipMarker(text))), &want)
		}
		require.NoError(t, err)
		require.Equal(t, marshal(t, want), marshal(t, got))
	})
}

// nonSpecificTag matches what may be the tag "!", which the tree of the YAML
// library does not show: kubectl takes "! 12" for text, and we take it for a
// number. Nobody writes that.
var nonSpecificTag = regexp.MustCompile(`!([^!A-Za-z<]|$)`)

func marshal(t *testing.T, value any) string {
	t.Helper()
	var buffer bytes.Buffer
	require.NoError(t, json.NewEncoder(&buffer).Encode(value))
	return buffer.String()
}
