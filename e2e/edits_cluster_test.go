package e2e

// editableOfCluster are more manifests for TestF21Edits: of the kinds that configure
// a cluster, and of custom resources.
var editableOfCluster = map[string]string{
	"ClusterRole": `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: <name>}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get]}]
`,
	"ClusterRoleBinding": `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: <name>}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{kind: User, name: none.example.com, apiGroup: rbac.authorization.k8s.io}]
`,
	"IngressClass": `
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: <name>}
spec:
  controller: example.com/none
  parameters: {apiGroup: example.com, kind: Parameters, name: web}
`,
	"StorageClass": `
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: <name>}
provisioner: example.com/none
allowVolumeExpansion: false
mountOptions: [noatime]
`,
	"PriorityClass": `
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: <name>}
value: 7
description: for tests
`,
	"ValidatingWebhookConfiguration": `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: <name>}
webhooks:
- name: one.example.com
  failurePolicy: Ignore
  sideEffects: None
  admissionReviewVersions: [v1]
  clientConfig: {service: {namespace: none, name: none}}
  matchConditions: [{name: none, expression: "false"}]
  rules: [{apiGroups: [none.example.com], apiVersions: [v1], resources: [none], operations: [CREATE]}]
- name: two.example.com
  failurePolicy: Ignore
  sideEffects: None
  admissionReviewVersions: [v1]
  clientConfig: {url: "https://none.example.com"}
  rules: [{apiGroups: [none.example.com], apiVersions: [v1], resources: [none], operations: [CREATE]}]
`,
	"ValidatingAdmissionPolicy": `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: <name>}
spec:
  failurePolicy: Ignore
  matchConstraints:
    resourceRules: [{apiGroups: [none.example.com], apiVersions: [v1], resources: [none], operations: [CREATE]}]
  variables: [{name: one, expression: "1"}, {name: two, expression: "2"}]
  matchConditions: [{name: none, expression: "false"}]
  validations: [{expression: "true"}]
`,
	"CustomResourceDefinition": `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.<name>.example.com}
spec:
  group: <name>.example.com
  scope: Namespaced
  names: {plural: things, singular: thing, kind: Thing, listKind: ThingList, categories: [all-things]}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, description: a thing, x-kubernetes-preserve-unknown-fields: true}}
`,
	"Widget": `
apiVersion: <group>/v1
kind: Widget
metadata: {name: <name>}
spec:
  count: 1
  ratio: 2
  parts: [{name: a, size: 1}, {name: b, size: 2}]
  tags: [red, green]
  steps: [first, second]
  whole: {a: "1", b: "2"}
  options: {color: red}
  none: {}
  unnamed: []
  nothing: null
  anything: {deep: {x: 1}, list: [1, 2]}
`,
	"Gadget": `
apiVersion: <group>/v1
kind: Gadget
metadata: {name: <name>}
spec: {size: 1}
status: {phase: Wanted}
`,
}

// editedKinds are the definitions of the custom resources: a Widget has all that
// a schema can say of how fields are merged, and a Gadget has no subresources.
const editedKinds = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.<group>}
spec:
  group: <group>
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.count, statusReplicasPath: .status.count}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
          spec:
            type: object
            properties:
              count: {type: integer}
              ratio: {type: number}
              mode: {type: string, default: auto}
              parts:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items:
                  type: object
                  required: [name]
                  properties: {name: {type: string}, size: {type: integer}, color: {type: string, default: red}}
              tags: {type: array, x-kubernetes-list-type: set, items: {type: string}}
              unnamed: {type: array, x-kubernetes-list-type: set, items: {type: string}}
              steps: {type: array, x-kubernetes-list-type: atomic, items: {type: string}}
              whole: {type: object, x-kubernetes-map-type: atomic, additionalProperties: {type: string}}
              options: {type: object, additionalProperties: {type: string}}
              none: {type: object, additionalProperties: {type: string}}
              nothing: {type: string, nullable: true}
              anything: {type: object, x-kubernetes-preserve-unknown-fields: true}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.<group>}
spec:
  group: <group>
  scope: Namespaced
  names: {plural: gadgets, singular: gadget, kind: Gadget, listKind: GadgetList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`
