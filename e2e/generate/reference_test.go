package generate

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/sync"
)

// reference is the file that the tests below generate parts of.
const reference = "docs/reference.md"

// crdFile is where the CRD is, in which the descriptions and defaults of fields are.
const crdFile = "config/crd/bases/infrahub.operators.com_vidraresources.yaml"

// syncCRDFile is that of InfrahubSyncs.
const syncCRDFile = "config/crd/bases/infrahub.operators.com_infrahubsyncs.yaml"

// version is the served version of the CRD.
func version(t *testing.T) apiextensionsv1.CustomResourceDefinitionVersion {
	t.Helper()
	return versionIn(t, crdFile)
}

// versionIn is the served version of the CRD in a file.
func versionIn(t *testing.T, file string) apiextensionsv1.CustomResourceDefinitionVersion {
	t.Helper()
	root, err := testenv.Root()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(root, file)) //nolint:gosec // a file of this repository
	require.NoError(t, err)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(t, yaml.UnmarshalStrict(text, crd))
	require.Len(t, crd.Spec.Versions, 1)
	return crd.Spec.Versions[0]
}

// TestSpecIsDocumented keeps the fields of the spec in docs/reference.md.
func TestSpecIsDocumented(t *testing.T) {
	schema := version(t).Schema.OpenAPIV3Schema.Properties["spec"]
	Section(t, reference, crdFile, "| Field | Type | Default | |\n|---|---|---|---|\n"+
		fields("spec", reflect.TypeFor[v1alpha1.VidraResourceSpec](), schema, true))
}

// TestStatusIsDocumented keeps the fields of the status in docs/reference.md.
func TestStatusIsDocumented(t *testing.T) {
	schema := version(t).Schema.OpenAPIV3Schema.Properties["status"]
	Section(t, reference, crdFile, "| Field | Type | |\n|---|---|---|\n"+
		fields("status", reflect.TypeFor[v1alpha1.VidraResourceStatus](), schema, false))
}

// TestInfrahubSyncIsDocumented keeps the fields, columns and reasons of InfrahubSyncs in docs/reference.md.
func TestInfrahubSyncIsDocumented(t *testing.T) {
	served := versionIn(t, syncCRDFile)
	schema := served.Schema.OpenAPIV3Schema
	var b strings.Builder
	b.WriteString("| Field | Type | Default | |\n|---|---|---|---|\n" + fields("spec", reflect.TypeFor[v1alpha1.InfrahubSyncSpec](), schema.Properties["spec"], true))
	b.WriteString("\n| Field | Type | |\n|---|---|---|\n" + fields("status", reflect.TypeFor[v1alpha1.InfrahubSyncStatus](), schema.Properties["status"], false))
	b.WriteString("\n" + columns(served))
	b.WriteString("\n| Reason | |\n|---|---|\n")
	for _, c := range constants(t, "pkg/api/v1alpha1/infrahubsync_types.go") {
		if strings.HasPrefix(c.name, "SyncReason") || strings.HasPrefix(c.name, "Artifact") && c.name != "ArtifactAnnotation" {
			fmt.Fprintf(&b, "| %s | %s |\n", c.value, Cell(c.doc))
		}
	}
	Section(t, reference, syncCRDFile, b.String())
}

// TestSyncReasonsHaveAdvice: docs/operations.md has a row for each reason for which Ready of an InfrahubSync is False, docs/infrahub.md one for
// each problem of an artifact, and the catalogue of Events an entry.
func TestSyncReasonsHaveAdvice(t *testing.T) {
	root, err := testenv.Root()
	require.NoError(t, err)
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(root, "docs", name)) //nolint:gosec // a file of this repository
		require.NoError(t, err)
		return string(text)
	}
	operations, infrahub, events := read("operations.md"), read("infrahub.md"), map[string]bool{}
	for _, entry := range sync.Catalogue() {
		events[entry.Reason] = true
	}
	for _, c := range constants(t, "pkg/api/v1alpha1/infrahubsync_types.go") {
		switch {
		case strings.HasPrefix(c.name, "SyncReason") && c.value != "Progressing" && c.value != "Suspended":
			require.True(t, events[c.value], c.value)
			require.True(t, c.value == "Synced" || strings.Contains(operations, "\n| "+c.value+" | "), c.value)
		case strings.HasPrefix(c.name, "Artifact") && c.name != "ArtifactAnnotation":
			require.Contains(t, infrahub, "\n| "+c.value+" | ")
		}
	}
}

// fields has a row for each field of a struct, in the order in which Go declares them.
func fields(path string, of reflect.Type, schema apiextensionsv1.JSONSchemaProps, defaults bool) string {
	var b strings.Builder
	for field := range of.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		property := schema.Properties[name]
		text := property.Description
		for _, rule := range property.XValidations {
			text += " Rule: " + rule.Message + "."
		}
		fmt.Fprintf(&b, "| `%s.%s` | %s | ", path, name, kind(property))
		if defaults {
			value := ""
			if property.Default != nil {
				value = "`" + strings.Trim(string(property.Default.Raw), `"`) + "`"
			}
			fmt.Fprintf(&b, "%s | ", value)
		}
		fmt.Fprintf(&b, "%s |\n", Cell(text))

		inner, below := field.Type, path+"."+name
		if inner.Kind() == reflect.Slice {
			inner, below, property = inner.Elem(), below+"[]", *property.Items.Schema
		}
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct && inner.PkgPath() == of.PkgPath() {
			b.WriteString(fields(below, inner, property, defaults))
		}
	}
	return b.String()
}

// kind is the type of a field, with the values that it may have.
func kind(schema apiextensionsv1.JSONSchemaProps) string {
	switch {
	case len(schema.Enum) > 0:
		var values []string
		for _, value := range schema.Enum {
			values = append(values, "`"+strings.Trim(string(value.Raw), `"`)+"`")
		}
		return strings.Join(values, ", ")
	case schema.Type == "array":
		return "list"
	case schema.Format == "date-time":
		return "time"
	case strings.Contains(schema.Pattern, "ms|s|m|h"):
		return "duration"
	}
	return schema.Type
}

// TestColumnsAreDocumented keeps the columns of kubectl get in docs/reference.md.
func TestColumnsAreDocumented(t *testing.T) {
	Section(t, reference, crdFile, columns(version(t)))
}

// columns has a row for each column of kubectl get.
func columns(of apiextensionsv1.CustomResourceDefinitionVersion) string {
	var b strings.Builder
	b.WriteString("| Column | Shows | Shown |\n|---|---|---|\n")
	for _, column := range of.AdditionalPrinterColumns {
		shown := "always"
		if column.Priority > 0 {
			shown = "with `-o wide`"
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s |\n", strings.ToUpper(column.Name), strings.TrimPrefix(column.JSONPath, "."), shown)
	}
	return b.String()
}

// constant is a constant of the code, with its doc comment.
type constant struct{ name, value, doc string }

// constants are the constants of a file with text as their value.
func constants(t *testing.T, file string) (found []constant) {
	t.Helper()
	root, err := testenv.Root()
	require.NoError(t, err)
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.ParseComments)
	require.NoError(t, err)
	for _, decl := range parsed.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		for _, spec := range group.Specs {
			value := spec.(*ast.ValueSpec)
			if len(value.Values) == 0 {
				continue
			}
			text, ok := value.Values[0].(*ast.BasicLit)
			if !ok || text.Kind != token.STRING {
				continue
			}
			doc := value.Doc
			if doc == nil && len(group.Specs) == 1 {
				doc = group.Doc
			}
			name := value.Names[0].Name
			found = append(found, constant{name, strings.Trim(text.Value, `"`), meaning(name, doc.Text())})
		}
	}
	return found
}

// TestConditionsAreDocumented keeps the conditions and their reasons in docs/reference.md.
func TestConditionsAreDocumented(t *testing.T) {
	const source = "pkg/api/v1alpha1/conditions.go"
	tables := map[string]*strings.Builder{"Condition": {}, "Reason": {}}
	for _, c := range constants(t, source) {
		for prefix, table := range tables {
			if strings.HasPrefix(c.name, prefix) {
				fmt.Fprintf(table, "| %s | %s |\n", c.value, Cell(c.doc))
			}
		}
	}
	Section(t, reference, source, "| Condition | |\n|---|---|\n"+tables["Condition"].String()+
		"\n| Reason | |\n|---|---|\n"+tables["Reason"].String())
}

// TestAnnotationsAreDocumented keeps labels, annotations and the finalizer in
// docs/reference.md.
func TestAnnotationsAreDocumented(t *testing.T) {
	var b strings.Builder
	b.WriteString("| Name | |\n|---|---|\n")
	for _, file := range []string{
		"pkg/api/v1alpha1/types.go", "pkg/api/v1alpha1/ownership_types.go", "pkg/api/v1alpha1/drift_types.go", "pkg/api/v1alpha1/infrahubsync_types.go",
		"pkg/ownership/stamp.go", "pkg/ownership/withhold.go", "pkg/cluster/secrets.go", "pkg/cluster/scope.go",
	} {
		for _, c := range constants(t, file) {
			marks := strings.Contains(c.value, v1alpha1.GroupVersion.Group) || strings.HasSuffix(c.name, "Label")
			if marks && ast.IsExported(c.name) {
				fmt.Fprintf(&b, "| `%s` | %s |\n", c.value, Cell(c.doc))
			}
		}
	}
	Section(t, reference, "constants of pkg/api/v1alpha1, pkg/ownership and pkg/cluster", b.String())
}

// meaning is the doc comment of a constant without "NAME is" or "NAME means that".
func meaning(name, doc string) string {
	text := strings.TrimPrefix(doc, name+" ")
	for _, verb := range []string{"is ", "means that "} {
		text = strings.TrimPrefix(text, verb)
	}
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
