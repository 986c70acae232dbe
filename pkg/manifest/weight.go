package manifest

// The most memory that Parse takes for each indicator and for each byte: TestWeightBoundsMemory measures them.
const indicatorWeight, byteWeight = 450, 6

// isIndicator holds the characters that stand before or behind each value of YAML and JSON.
var isIndicator = [256]bool{',': true, '[': true, '{': true, ':': true, '-': true, '?': true, '#': true, '\n': true, '\r': true}

// Weight estimates from above how many bytes of memory [Parse] takes at a time for
// a text, aliases aside. For ordinary manifests it is about 50 times their size. It is
// too high for long texts in values, which may hold many indicators and few values.
func Weight[T string | []byte](text T) int64 {
	weight := int64(len(text)) * byteWeight
	for i := range len(text) {
		if isIndicator[text[i]] {
			weight += indicatorWeight
		}
	}
	return weight
}
