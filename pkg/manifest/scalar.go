package manifest

import (
	"encoding/base64"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// The short forms of the YAML 1.1 tags that change the meaning of a scalar.
const (
	tagString    = "!!str"
	tagBool      = "!!bool"
	tagInt       = "!!int"
	tagFloat     = "!!float"
	tagNull      = "!!null"
	tagTimestamp = "!!timestamp"
	tagBinary    = "!!binary"
	tagMerge     = "!!merge"
)

// words are the plain scalars with a meaning in YAML 1.1, as far as sigs.k8s.io/yaml, and with it kubectl, knows them.
var words = map[string]any{}

func init() {
	for value, spellings := range map[any]string{
		true:         "y Y yes Yes YES true True TRUE on On ON",
		false:        "n N no No NO false False FALSE off Off OFF",
		nil:          "~ null Null NULL",
		math.Inf(+1): ".inf .Inf .INF +.inf +.Inf +.INF",
		math.Inf(-1): "-.inf -.Inf -.INF",
	} {
		for word := range strings.FieldsSeq(spellings) {
			words[word] = value
		}
	}
	words[""] = nil
	words[".nan"], words[".NaN"], words[".NAN"] = math.NaN(), math.NaN(), math.NaN()
}

// decimal matches numbers of YAML other than integers of 64 bits.
var decimal = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)

// scalar returns the value of a scalar as sigs.k8s.io/yaml reads it: a string,
// int64, uint64, float64, bool or nil.
//
// sigs.k8s.io/yaml stands on version 2 of the YAML library. Version 3, which
// gives us lines, has the same grammar and gives yes and on other types; so
// its tree is used, and its types are not.
func scalar(n *yaml.Node) (any, *Error) {
	const quoted = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	tag := ""
	if n.Style&yaml.TaggedStyle != 0 {
		tag = n.Tag
	}
	switch {
	case tag == "" && n.Style&quoted != 0:
		return n.Value, nil
	case tag == "":
		return plain(n.Value), nil
	case tag == tagBinary:
		return binary(n)
	case tag == tagBool, tag == tagInt, tag == tagFloat, tag == tagNull:
		return tagged(n, tag)
	}
	// A !!str and a !!timestamp are strings, and kubectl ignores unknown tags.
	return n.Value, nil
}

// plain returns the value of a scalar without quotes and without a tag.
func plain(text string) any {
	if value, known := words[text]; known {
		return value
	}
	switch c := text[0]; {
	case c == '.':
		if f, err := strconv.ParseFloat(text, 64); err == nil {
			return f
		}
	case c == '+', c == '-', '0' <= c && c <= '9':
		return number(text)
	}
	return text
}

// number returns the number that a text stands for, or the text if it is none.
func number(text string) any {
	digits := strings.ReplaceAll(text, "_", "")
	if i, err := strconv.ParseInt(digits, 0, 64); err == nil {
		return i
	}
	if u, err := strconv.ParseUint(digits, 0, 64); err == nil {
		return u
	}
	if decimal.MatchString(digits) {
		if f, err := strconv.ParseFloat(digits, 64); err == nil {
			return f
		}
	}
	return text
}

// tagged returns the value of a scalar whose tag sets its type, whether
// or not it stands in quotes.
func tagged(n *yaml.Node, tag string) (any, *Error) {
	value := plain(n.Value)
	got := ""
	switch v := value.(type) {
	case nil:
		got = tagNull
	case bool:
		got = tagBool
	case int64:
		got = tagInt
		if tag == tagFloat {
			return float64(v), nil
		}
	case uint64:
		got = tagInt
	case float64:
		got = tagFloat
	}
	if got != tag {
		return nil, faultf(n.Line, "has a value with the tag %s that is none: correct the value or leave out the tag", tag)
	}
	return value, nil
}

// binary returns the text that a !!binary scalar encodes.
func binary(n *yaml.Node) (any, *Error) {
	data, err := base64.StdEncoding.DecodeString(n.Value)
	if err != nil || !utf8.Valid(data) {
		return nil, faultf(n.Line, "has a !!binary value that is not text in base64: "+
			"Kubernetes takes base64 as it is (Secret data, ConfigMap binaryData), so leave out the tag")
	}
	return string(data), nil
}

// jsonValue returns the form of a scalar's value at the API server, by way of JSON: an integer that fits is an int64, any
// other number a float64. So 1.0 and 1e3 are integers, as they are for kubectl.
func jsonValue(value any, line int) (any, *Error) {
	switch v := value.(type) {
	case uint64:
		return float64(v), nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, faultf(line, "has a number that is too large, infinite or none at all, which Kubernetes cannot store")
		}
		// The digits decide, not the value: JSON has the shortest ones that give
		// the same float64 again, and 1<<60 + 0.0 ends in 000 there.
		if math.Abs(v) < 1<<63 {
			if i, err := strconv.ParseInt(strconv.FormatFloat(v, 'f', -1, 64), 10, 64); err == nil {
				return i, nil
			}
		}
	}
	return value, nil
}

// keyText returns the text of a mapping key whose value is anything but a string, as
// sigs.k8s.io/yaml writes it, and whether such a key is allowed.
func keyText(value any) (text string, ok bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case int64:
		return strconv.FormatInt(v, 10), true
	case bool:
		return strconv.FormatBool(v), true
	case float64:
		switch {
		case math.IsNaN(v):
			return ".nan", true
		case math.IsInf(v, +1):
			return ".inf", true
		case math.IsInf(v, -1):
			return "-.inf", true
		}
		return strconv.FormatFloat(v, 'g', -1, 32), true
	}
	return "", false
}
