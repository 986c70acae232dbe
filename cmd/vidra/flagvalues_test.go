package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNameRule(t *testing.T) {
	require.EqualError(t, validateNamespace("namespace", "A"), `--namespace "A": want the name of a namespace: a lowercase RFC 1123 label must consist of `+
		"lower case alphanumeric characters or '-', and must start and end with an alphanumeric character")
}
