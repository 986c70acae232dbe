package insight

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestKindArgument(t *testing.T) {
	for want, kind := range map[string]schema.GroupKind{
		"configmap":                   {Kind: "ConfigMap"},
		"deployment":                  {Group: "apps", Kind: "Deployment"},
		"ingress":                     {Group: "networking.k8s.io", Kind: "Ingress"},
		"certificate.cert-manager.io": {Group: "cert-manager.io", Kind: "Certificate"},
	} {
		require.Equal(t, want, kindArgument(kind))
	}
}
